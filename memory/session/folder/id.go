package folder

import "strings"

// SessionID returns the id of a session as its files state it: "session-001" for
// the number "001". What is no number is returned as it is.
func SessionID(number string) string {
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return number
	}
	return "session-" + number
}

// Number returns the number within the id of a session: "001" for "session-001".
// What is no such id is returned as it is.
func Number(id string) string {
	if n, ok := strings.CutPrefix(id, "session-"); ok && SessionID(n) != n {
		return n
	}
	return id
}

// ID is the number of a session, which documents state as its id.
type ID string

// MarshalText returns the id.
func (i ID) MarshalText() ([]byte, error) { return []byte(SessionID(string(i))), nil }

// UnmarshalText reads an id, or the number alone.
func (i *ID) UnmarshalText(text []byte) error {
	*i = ID(Number(string(text)))
	return nil
}
