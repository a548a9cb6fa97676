package git

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxContent is the longest blob that is read by Contents, maxContents all of them
// together.
const (
	maxContent  = 1 << 20
	maxContents = 64 << 20
)

// Contents reads blobs by their ids; those that are too big, or no blobs of this
// repository, are not in the answer.
func (p Plumbing) Contents(ctx context.Context, blobs []string) (map[string][]byte, error) {
	return contents(blobs, func(args []string, stdin []byte) ([]byte, error) {
		out, _, err := p.Run(ctx, Call{Args: args, Stdin: stdin})
		return out, err
	})
}

// Contents reads blobs of checkpoints by their ids, as Plumbing.Contents does.
func (c *Checkpoints) Contents(ctx context.Context, blobs []string) (map[string][]byte, error) {
	return contents(blobs, func(args []string, stdin []byte) ([]byte, error) {
		return c.run(ctx, call{args: args, stdin: stdin})
	})
}

func contents(blobs []string, run func(args []string, stdin []byte) ([]byte, error)) (map[string][]byte, error) {
	texts := map[string][]byte{}
	if len(blobs) == 0 {
		return texts, nil
	}
	out, err := run([]string{"cat-file", "--batch-check=%(objectname) %(objectsize)"}, []byte(strings.Join(blobs, "\n")+"\n"))
	if err != nil {
		return nil, err
	}
	var fit []string
	sizes := map[string]int{}
	for line := range strings.Lines(string(out)) {
		hash, size, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(size)
		if _, twice := sizes[hash]; twice || err != nil || n > maxContent {
			continue
		}
		sizes[hash] = n
		fit = append(fit, hash)
	}
	// The small ones first: a heap of data must not push out what checks it.
	slices.SortStableFunc(fit, func(a, b string) int { return cmp.Compare(sizes[a], sizes[b]) })
	left := maxContents
	fit = slices.DeleteFunc(fit, func(hash string) bool { left -= sizes[hash]; return left < 0 })
	if len(fit) == 0 {
		return texts, nil
	}
	out, err = run([]string{"cat-file", "--batch=%(objectname)"}, []byte(strings.Join(fit, "\n")+"\n"))
	if err != nil {
		return nil, err
	}
	for rest := out; len(rest) > 0; {
		hash, text, _ := strings.Cut(string(rest[:min(len(rest), 80)]), "\n")
		at, n := len(rest[:min(len(rest), 80)])-len(text), sizes[hash]
		if at+n+1 > len(rest) {
			return nil, fmt.Errorf("git cat-file: %.80q", rest)
		}
		texts[hash], rest = rest[at:at+n:at+n], rest[at+n+1:]
	}
	return texts, nil
}
