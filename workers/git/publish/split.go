package publish

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// splitIndex is the extension "link" of gitformat-index(5): the entries of the file
// change those of another one.
type splitIndex struct {
	base     string // raw bytes of the checksum of the other file, which names it
	deleted  []bool // by the position of an entry in the other file
	replaced []bool
}

func errSplit(why any) error { return fmt.Errorf("%w: the split index is damaged: %v", errIndex, why) }

// parseSplit reads the content of the extension.
func parseSplit(b []byte, oidLen int) (*splitIndex, error) {
	if len(b) < oidLen {
		return nil, errSplit("it names no other file")
	}
	s := &splitIndex{base: string(b[:oidLen])}
	b = b[oidLen:]
	if len(b) == 0 {
		return s, nil
	}
	var err error
	if s.deleted, b, err = parseBitmap(b); err == nil {
		s.replaced, b, err = parseBitmap(b)
	}
	if err != nil || len(b) > 0 {
		return nil, errSplit("its bitmaps are cut off")
	}
	return s, nil
}

// maxBits bounds a bitmap: no index has more entries.
const maxBits = maxIndexBytes / oidAt

// parseBitmap reads an EWAH bitmap as gitformat-bitmap(5) has it: the number of bits
// and of words, the words, and the position of the last marker. A marker is followed
// by as many words as it says.
func parseBitmap(b []byte) (bits []bool, rest []byte, err error) {
	if len(b) < 8 {
		return nil, nil, errSplit("its bitmaps are cut off")
	}
	most, n := binary.BigEndian.Uint32(b), int64(binary.BigEndian.Uint32(b[4:]))
	b = b[8:]
	if most > maxBits || int64(len(b)) < 8*n+4 {
		return nil, nil, errSplit("its bitmaps are cut off")
	}
	words, rest := b[:8*n], b[8*n+4:]
	bits = make([]bool, 0, most)
	next := func() uint64 {
		w := binary.BigEndian.Uint64(words)
		words = words[8:]
		return w
	}
	add := func(word uint64) error {
		for i := range 64 {
			set := word>>i&1 == 1
			if len(bits) < int(most) {
				bits = append(bits, set)
			} else if set {
				return errSplit("a bit is past the end of its bitmap")
			}
		}
		return nil
	}
	for len(words) > 0 {
		marker := next()
		run, literal := marker>>1&0xffffffff, marker>>33
		if run > uint64(most)/64+1 || literal > uint64(len(words)/8) {
			return nil, nil, errSplit("its bitmaps are cut off")
		}
		for range run {
			if err := add(-(marker & 1)); err != nil {
				return nil, nil, err
			}
		}
		for range literal {
			if err := add(next()); err != nil {
				return nil, nil, err
			}
		}
	}
	return bits, rest, nil
}

// merge makes the whole index of the file x, which holds the entries that replace
// those of base, in their order and without a path, and then those that are new.
func (s *splitIndex) merge(x, base gitIndex) (gitIndex, error) {
	if len(s.deleted) > len(base.entries) || len(s.replaced) > len(base.entries) {
		return x, errSplit("it changes more entries than there are")
	}
	whole := gitIndex{sparse: x.sparse || base.sparse}
	own := x.entries
	for i, e := range base.entries {
		if i < len(s.replaced) && s.replaced[i] {
			if len(own) == 0 || own[0].path != "" {
				return x, errSplit("it lacks an entry")
			}
			own[0].path = e.path
			e, own = own[0], own[1:]
		}
		if i >= len(s.deleted) || !s.deleted[i] {
			whole.entries = append(whole.entries, e)
		}
	}
	whole.entries = append(whole.entries, own...)
	slices.SortStableFunc(whole.entries, func(a, b indexEntry) int {
		switch {
		case ascending(a, b):
			return -1
		case ascending(b, a):
			return 1
		}
		return 0
	})
	return whole, nil
}

// readBase reads the other file of a split index. read gives the content of a file
// beside the index.
func (s *splitIndex) readBase(oidLen int, read func(name string) ([]byte, error)) (gitIndex, error) {
	b, err := read("sharedindex." + hex.EncodeToString([]byte(s.base)))
	if err != nil {
		return gitIndex{}, errSplit(err) // that it does not exist is no missing index
	}
	base, split, err := parseIndexFile(b, oidLen)
	sum := string(b[max(0, len(b)-oidLen):])
	if err == nil && (split != nil || sum != s.base && !isNull(sum)) {
		err = errors.New("its other part is another file")
	}
	if err != nil {
		return gitIndex{}, errSplit(err)
	}
	return base, nil
}
