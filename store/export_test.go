package store

// SetSchema makes the file declare another schema.
func SetSchema(s *Store, schema int) error {
	m := s.meta
	m.Schema = schema
	return s.putMeta(m)
}
