package store

// SetSchema makes the file say that it has another schema.
func SetSchema(s *Store, schema int) error {
	m := s.meta
	m.Schema = schema
	return s.putMeta(m)
}
