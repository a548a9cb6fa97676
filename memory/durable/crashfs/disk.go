package crashfs

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"
)

type opKind uint8

const (
	opWrite opKind = iota
	opTruncate
	opSync
	opLost // a sync that failed
	opLink
	opUnlink
	opRename
	opExchange
	opMode
	opAck
)

// op is one recorded operation. Directories and files are named by inode, so
// that it means the same whatever became of their paths.
type op struct {
	kind        opKind
	ino, ino2   uint64
	dir, dir2   uint64
	name, name2 string
	off         int // or the size, of a truncation
	mode        fs.FileMode
	data        []byte
}

// String says what the operation is, for a failure's report.
func (o op) String() string {
	switch o.kind {
	case opWrite:
		return fmt.Sprintf("write %d bytes at %d of #%d", len(o.data), o.off, o.ino)
	case opTruncate:
		return fmt.Sprintf("truncate #%d to %d", o.ino, o.off)
	case opSync:
		return fmt.Sprintf("sync #%d", o.ino)
	case opLost:
		return fmt.Sprintf("fail to sync #%d", o.ino)
	case opLink:
		return fmt.Sprintf("create %s as #%d", o.name, o.ino)
	case opUnlink:
		return "remove " + o.name
	case opRename:
		return fmt.Sprintf("rename %s to %s", o.name, o.name2)
	case opExchange:
		return fmt.Sprintf("exchange %s and %s", o.name, o.name2)
	case opMode:
		return fmt.Sprintf("chmod #%d", o.ino)
	default:
		return "acknowledge " + o.name
	}
}

// disk is what is durable and what is pending at some moment.
type disk struct {
	inodes  map[uint64]*inode
	pending []op // on directories, oldest first
	dirty   int  // inodes with pending operations
	syncs   uint64
	acked   []string
}

// inode is a file or directory: what is durable of it and what is not.
type inode struct {
	node           // as a running process sees it; names are unused
	durable []byte // as it was at the last sync
	pending []op   // on its data since
	lost    bool   // a sync failed: what a process sees is not what a sync writes
	entries map[string]uint64
}

// written is the data with all that is pending on disk.
func (in *inode) written() []byte {
	if !in.lost {
		return in.share()
	}
	n := node{data: in.durable[:len(in.durable):len(in.durable)], shared: len(in.durable)}
	for _, o := range in.pending {
		n.do(o)
	}
	return n.data[:len(n.data):len(n.data)]
}

// snapshot takes a tree as a disk on which all is durable.
func snapshot(root *node) *disk {
	d := &disk{inodes: map[uint64]*inode{}}
	d.take(root)
	return d
}

func (d *disk) take(n *node) {
	in := &inode{node: node{ino: n.ino, mode: n.mode, mtime: n.mtime}}
	d.inodes[n.ino] = in
	if n.names == nil {
		in.durable = n.share()
		in.data, in.shared = in.durable, len(in.durable)
		return
	}
	in.entries = map[string]uint64{}
	for name, child := range n.names {
		in.entries[name] = child.ino
		d.take(child)
	}
}

// clone copies what a replay changes.
func (d *disk) clone() *disk {
	c := &disk{inodes: make(map[uint64]*inode, len(d.inodes))}
	for ino, in := range d.inodes {
		n := *in
		n.shared = len(n.data)
		n.entries = make(map[string]uint64, len(in.entries))
		for name, child := range in.entries {
			n.entries[name] = child
		}
		c.inodes[ino] = &n
	}
	return c
}

// apply replays one operation.
func (d *disk) apply(o op) {
	in := d.inodes[o.ino]
	switch o.kind {
	case opWrite, opTruncate:
		in.do(o)
		if len(in.pending) == 0 {
			d.dirty++
		}
		in.pending = append(in.pending, o)
	case opSync:
		d.syncs++
		if in.mode.IsDir() {
			d.settle(o.ino)
			return
		}
		if len(in.pending) > 0 {
			d.dirty--
		}
		in.durable, in.pending = in.written(), nil
	case opLost:
		if in.mode.IsDir() {
			d.pending = slices.DeleteFunc(slices.Clone(d.pending), func(o op) bool {
				return slices.ContainsFunc(o.touches(), func(e entry) bool { return e.dir == in.ino })
			})
			return
		}
		if len(in.pending) > 0 {
			d.dirty--
		}
		in.pending, in.lost = nil, true
	case opMode:
		in.mode = o.mode
	case opAck:
		d.acked = append(d.acked, o.name)
	case opLink:
		if in == nil {
			in = &inode{node: node{ino: o.ino, mode: o.mode, mtime: time.Now()}, entries: map[string]uint64{}}
			d.inodes[o.ino] = in
		}
		d.pending = append(d.pending, o)
	default:
		d.pending = append(d.pending, o)
	}
}

// do changes the data as an operation says.
func (n *node) do(o op) {
	switch {
	case o.kind == opWrite:
		n.put(o.data, o.off)
	case o.off < len(n.data):
		n.cut(o.off)
	default:
		n.grow(o.off)
	}
}

// entry is a name in a directory.
type entry struct {
	dir  uint64
	name string
}

// touches lists the entries that an operation changes.
func (o op) touches() []entry {
	if o.kind == opRename || o.kind == opExchange {
		return []entry{{o.dir, o.name}, {o.dir2, o.name2}}
	}
	return []entry{{o.dir, o.name}}
}

// settle makes the pending operations on a directory durable, and with them
// older ones on the names that they touch elsewhere.
func (d *disk) settle(dir uint64) {
	touched := map[entry]bool{}
	chosen := make([]bool, len(d.pending))
	for i, o := range slices.Backward(d.pending) {
		names := o.touches()
		chosen[i] = slices.ContainsFunc(names, func(e entry) bool { return e.dir == dir || touched[e] })
		for _, e := range names {
			touched[e] = touched[e] || chosen[i]
		}
	}
	var rest []op
	for i, o := range d.pending {
		if !chosen[i] {
			rest = append(rest, o)
			continue
		}
		o.entries(func(e entry, ino uint64, only uint64) {
			names := d.inodes[e.dir].entries
			switch {
			case ino != 0:
				names[e.name] = ino
			case only == 0 || names[e.name] == only:
				delete(names, e.name)
			}
		})
	}
	d.pending = rest
}

// entries tells which names an operation sets to which inode, or with 0
// removes: only when the inode given as only stands there, if it is not 0.
func (o op) entries(set func(e entry, ino, only uint64)) {
	switch o.kind {
	case opLink:
		set(entry{o.dir, o.name}, o.ino, 0)
	case opUnlink:
		set(entry{o.dir, o.name}, 0, 0)
	case opRename:
		set(entry{o.dir, o.name}, 0, o.ino)
		set(entry{o.dir2, o.name2}, o.ino, 0)
	case opExchange:
		set(entry{o.dir, o.name}, o.ino2, 0)
		set(entry{o.dir2, o.name2}, o.ino, 0)
	}
}

// still says that nothing is pending: there is only one disk to find.
func (d *disk) still() bool { return len(d.pending) == 0 && d.dirty == 0 }

// image is one disk in the making.
type image struct {
	d     *disk
	r     *rand.Rand
	keep  func(in *inode) []byte // what is found of a file with pending operations
	nodes map[uint64]*node
	hash  maphash.Hash
}

// image makes a disk that a power cut could have left.
func (d *disk) image(r *rand.Rand, seed maphash.Seed) (*FS, uint64) {
	b := &image{d: d, r: r}
	b.hash.SetSeed(seed)
	kept := func(int) bool { return false }
	b.keep = b.some
	switch regime := r.IntN(16); {
	case regime < 2: // nothing since the last syncs
		b.keep = func(in *inode) []byte { return in.durable }
	case regime < 3: // a rename before the data
		kept = func(int) bool { return true }
		b.keep = func(in *inode) []byte { return in.durable }
	case regime < 4: // nothing is lost
		kept = func(int) bool { return true }
		b.keep = (*inode).written
	case regime < 8: // an ordered journal of metadata
		until := r.IntN(len(d.pending) + 1)
		kept = func(i int) bool { return i < until }
	default:
		of8 := 1 + r.IntN(7)
		kept = func(int) bool { return r.IntN(8) < of8 }
	}
	return b.build(kept)
}

// killed is what is found when the process dies but the system does not: all
// that was done, and of a write that comes next any part.
func (d *disk) killed(next op, r *rand.Rand) (*FS, uint64) {
	b := &image{d: d, r: r, keep: func(in *inode) []byte { return in.share() }}
	f, h := b.build(func(int) bool { return true })
	if n := b.nodes[next.ino]; n != nil && next.kind == opWrite {
		n.put(next.data[:r.IntN(len(next.data)+1)], next.off)
	}
	return f, h
}

func (b *image) build(kept func(i int) bool) (*FS, uint64) {
	b.nodes = make(map[uint64]*node, 8)
	root := b.node(1)
	for i, o := range b.d.pending {
		if kept(i) {
			o.entries(b.set)
		}
	}
	for _, o := range b.d.pending {
		for _, e := range o.touches() {
			b.word(b.present(e))
		}
	}
	b.word(b.d.syncs)
	return &FS{root: root, next: 1 << 32}, b.hash.Sum64()
}

func (b *image) set(e entry, ino, only uint64) {
	names := b.node(e.dir).names
	switch old := names[e.name]; {
	case ino != 0:
		names[e.name] = b.node(ino)
	case only == 0 || old != nil && old.ino == only:
		delete(names, e.name)
	}
}

// present returns the inode at a name, or 0.
func (b *image) present(e entry) uint64 {
	if n := b.node(e.dir).names[e.name]; n != nil {
		return n.ino
	}
	return 0
}

func (b *image) word(v uint64) {
	maphash.WriteComparable(&b.hash, v)
}

// node returns the image's own node for an inode, with what is found of it.
func (b *image) node(ino uint64) *node {
	if n := b.nodes[ino]; n != nil {
		return n
	}
	in := b.d.inodes[ino]
	n := &node{ino: ino, mode: in.mode, mtime: in.mtime}
	b.nodes[ino] = n
	if in.mode.IsDir() {
		n.names = make(map[string]*node, len(in.entries))
		for name, child := range in.entries {
			n.names[name] = b.node(child)
		}
		return n
	}
	n.data = in.durable
	if len(in.pending) > 0 || in.lost {
		n.data = b.keep(in)
		b.word(ino)
		_, _ = b.hash.Write(n.data) // never fails
	}
	n.data = n.data[:len(n.data):len(n.data)]
	n.shared = len(n.data)
	return n
}

// some picks what is found of a file that has pending operations.
func (b *image) some(in *inode) []byte {
	switch b.r.IntN(8) {
	case 0:
		return in.durable
	case 1:
		return in.written()
	case 2, 3:
		return b.first(in)
	default:
		return b.blocks(in)
	}
}

// first is what the first operations left, the last of them torn.
func (b *image) first(in *inode) []byte {
	n := node{data: in.durable[:len(in.durable):len(in.durable)], shared: len(in.durable)}
	until := b.r.IntN(len(in.pending) + 1)
	for _, o := range in.pending[:until] {
		n.do(o)
	}
	if until < len(in.pending) {
		if o := in.pending[until]; o.kind == opWrite {
			o.data = o.data[:b.r.IntN(len(o.data)+1)]
			n.do(o)
		}
	}
	return n.data
}

// blocks is what any of the blocks written left, at a size that may be ahead of
// them or behind.
func (b *image) blocks(in *inode) []byte {
	until := b.r.IntN(len(in.pending) + 1)
	size, least := len(in.durable), len(in.durable)
	for _, o := range in.pending[:until] {
		if o.kind == opTruncate {
			size = o.off
			least = min(least, size)
		} else {
			size = max(size, o.off+len(o.data))
		}
	}
	data := make([]byte, size)
	copy(data, in.durable[:least])
	block := 512
	if b.r.IntN(2) == 0 {
		block = 4096
	}
	// How many of the operations each block has seen.
	seen := make([]int, size/block+1)
	for i := range seen {
		switch b.r.IntN(3) {
		case 0:
			seen[i] = len(in.pending)
		case 1:
			seen[i] = b.r.IntN(len(in.pending) + 1)
		}
	}
	for i, o := range in.pending {
		from, to := o.off, o.off+len(o.data)
		if o.kind == opTruncate {
			to = size
		}
		for to = min(to, size); from < to; {
			end := min(to, (from/block+1)*block)
			switch {
			case i >= seen[from/block]:
			case o.kind == opTruncate:
				clear(data[from:end])
			default:
				copy(data[from:end], o.data[from-o.off:])
			}
			from = end
		}
	}
	return data
}
