package schemas

// FileName is the name of the file that holds the schema of a type.
func FileName(eventType string) string { return eventType + schemaSuffix }
