package folder

// report writes the report of a folder that is open.
func report(f *Folder, lessons ...string) error {
	_ = f.Flush() // what is held is not in the report either
	return ReportOptions{Lessons: lessons, Redact: f.o.Redact, Quarantine: f.o.Quarantine}.Write(f.o.FS, f.o.Dir)
}
