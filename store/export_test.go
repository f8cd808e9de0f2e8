package store

// Unstate brings the file to what it was before store-id was written beside it.
func Unstate(s *Store) error {
	m := s.meta
	m.Stated = false
	return s.putMeta(m)
}

// SetSchema makes the file say that it has another schema.
func SetSchema(s *Store, schema int) error {
	m := s.meta
	m.Schema = schema
	return s.putMeta(m)
}
