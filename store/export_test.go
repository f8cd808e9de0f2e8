package store

// Unstate brings the file to what it was before store-id was written beside it.
func Unstate(s *Store) error {
	m := s.meta
	m.Stated = false
	return s.putMeta(m)
}

// InSteps makes room for an import and closes up again, and stops after so many transactions.
func InSteps(s *Store, agency string, upTo uint64, steps int) error {
	for _, r := range []renumbering{room(upTo), closed()} {
		for done := false; !done; steps-- {
			var err error
			if done, err = s.renumberStep(agency, r); err != nil || steps == 0 {
				return err
			}
		}
	}
	return nil
}

// SetSchema makes the file say that it has another schema.
func SetSchema(s *Store, schema int) error {
	m := s.meta
	m.Schema = schema
	return s.putMeta(m)
}
