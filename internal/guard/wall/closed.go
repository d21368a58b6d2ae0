package wall

import (
	"bytes"
	"cmp"
	"crypto/sha1" //nolint:gosec // as git names its objects
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/internal/guard/wall/confine"
	"claudeops/internal/guard/wall/relay"
	"claudeops/internal/ops"
)

const (
	// mostWalked bounds how many entries are looked at for a session: folders beyond it are closed.
	mostWalked = 200_000
	// mostClosed bounds how many places are closed one by one; where there are more, the folders they lie in are.
	mostClosed = 400
)

// secretPlaces hold secrets whatever their modes say.
func secretPlaces() []string {
	return []string{
		"/etc/shadow", "/etc/gshadow", "/sys/kernel/debug", "/sys/kernel/tracing", "/run/secrets", "/run/credentials", "/run/user",
	}
}

// judged are the folders in which a session sees only what others may read. What the operator names himself is open there: a file, and
// in a folder what others may read. Logs are not among them: what must not be read of those is redacted.
func (s *Sandbox) judged() []string {
	out := []string{"/etc", "/usr/local/etc"}
	for _, path := range slices.Concat(systemPlaces(), s.c.Readable) {
		if at, err := filepath.EvalSymlinks(path); err == nil && isFolder(at) && !inside(at, "/var/log") &&
			(slices.Contains(s.c.Readable, path) || inside(at, "/opt")) {
			out = append(out, at)
		}
	}
	return out
}

// closed is what a session does not see of what is open, in order, as it is when the session starts: what others may not read, secret
// files of clones, and the places of secrets and of the supervisor. Sessions without an id share what was found last.
func (s *Sandbox) closed(session Session) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != nil && (session.ID == "" || s.seenBy == session.ID) {
		return s.seen
	}
	w := walk{left: mostWalked}
	for _, path := range slices.Concat(s.declared(), s.c.ExtraReadOnly, s.grants()) {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			w.named = append(w.named, at)
		}
	}
	for _, dir := range s.judged() {
		w.folder(dir, false)
	}
	out := append(fold(w.found), s.secretFiles()...)
	for _, path := range slices.Concat(secretPlaces(), homeSecrets(), s.c.Hidden, s.c.OtherStateDirs, s.protectedDirs()) {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			out = append(out, at)
		}
		out = append(out, filepath.Clean(path))
	}
	slices.Sort(out)
	s.seenBy, s.seen = session.ID, slices.Compact(out)
	return s.seen
}

// walk finds what others may not read.
type walk struct {
	named []string // what is open whatever its mode
	found []string
	left  int // entries that may still be looked at
}

// folder looks at what lies in a folder. In one that others may not enter only what is named is open.
func (w *walk) folder(dir string, shut bool) {
	entries, _ := os.ReadDir(dir) // what cannot be listed cannot be read either
	for _, entry := range entries {
		at := filepath.Join(dir, entry.Name())
		info, err := entry.Info()
		if w.left--; err != nil || info.Mode()&os.ModeSymlink != 0 || slices.Contains(w.named, at) {
			continue
		}
		const read, enter = 0o004, 0o001
		closed := shut || info.Mode()&read == 0
		if info.IsDir() {
			closed = shut || info.Mode()&enter == 0 || w.left <= 0
			if !closed || slices.ContainsFunc(w.named, func(path string) bool { return inside(path, at) }) {
				w.folder(at, closed)
				continue
			}
		}
		if closed {
			w.found = append(w.found, at)
		}
	}
}

// fold closes folders in the place of what lies in them, the deepest first, until the list is short enough.
func fold(found []string) []string {
	depth := func(path string) int { return strings.Count(path, "/") }
	for len(found) > mostClosed {
		deepest := depth(slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(depth(a), depth(b)) }))
		for i, path := range found {
			if depth(path) == deepest {
				found[i] = filepath.Dir(path)
			}
		}
		slices.Sort(found)
		found = slices.Compact(found)
	}
	return found
}

// Secrets are the files of the clones that agents do not read.
func (s *Sandbox) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secretFiles()
}

// secretFiles are the files of clones that may hold secrets, by their names. What is as git has it lies in the history, which agents read.
func (s *Sandbox) secretFiles() []string {
	if s.c.Secret == nil {
		return nil
	}
	h := hunt{s: s, left: mostWalked, seen: map[string]folder{}, found: map[string][]string{}}
	if uid := s.c.UIDs[ops.Tier1]; uid != 0 {
		h.who, _ = lookUp(uid) // one that is not known runs no session
	}
	for _, path := range s.c.Readable {
		if at, err := filepath.EvalSymlinks(path); err == nil {
			h.named = append(h.named, at)
		}
	}
	for _, root := range append([]string{s.c.ReposDir}, s.c.Clones...) {
		if at, err := filepath.EvalSymlinks(root); err == nil && root != "" {
			h.folder(at, "", "", false)
		}
	}
	s.folders = h.seen
	var out []string
	for clone, files := range h.found {
		index := readIndex(filepath.Join(clone, ".git/index"))
		byName := func(e entry, name string) int { return strings.Compare(e.name, name) }
		for _, at := range files {
			i, tracked := slices.BinarySearchFunc(index, strings.TrimPrefix(at, clone+"/"), byName)
			if !tracked || !index[i].holds(at) {
				out = append(out, at)
			}
		}
	}
	slices.Sort(out)
	return fold(slices.Compact(out))
}

// mostPath is how long the path of a folder in a clone may be: a longer one is closed as a whole, before its files are out of reach.
const mostPath = 2000

// folder is what was found in a folder of a clone, as long as that does not change.
type folder struct {
	inode   uint64
	changed unix.Timespec // no program can set it
	entries int
	secrets []string
	folders map[string]bool // whether all in it is secret
	clone   bool
}

// hunt looks for secret files in clones.
type hunt struct {
	s     *Sandbox
	who   person   // who the agents run as, if not the supervisor's user: what it cannot reach needs no cover, and could have none
	named []string // what the operator opens
	seen  map[string]folder
	found map[string][]string // by clone
	left  int
}

// folder looks at what lies in a folder of a clone. In all everything is secret; parent is the name of the folder above.
func (h *hunt) folder(dir, clone, parent string, all bool) {
	var stat unix.Stat_t
	if unix.Lstat(dir, &stat) != nil || !h.enters(&stat) {
		return
	}
	is, known := h.s.folders[dir]
	if !known || is.inode != stat.Ino || is.changed != stat.Ctim {
		is = h.list(dir, parent, all)
		is.inode, is.changed = stat.Ino, stat.Ctim
	}
	if time.Since(time.Unix(stat.Ctim.Unix())) > time.Second { // it may change once more at the same time
		h.seen[dir] = is
	}
	if is.clone {
		clone = dir
	}
	if h.left -= is.entries; h.left <= 0 || len(dir) > mostPath {
		h.found[clone] = append(h.found[clone], dir)
		return
	}
	for _, name := range is.secrets {
		if at := filepath.Join(dir, name); !slices.Contains(h.named, at) {
			h.found[clone] = append(h.found[clone], at)
		}
	}
	for name, all := range is.folders {
		if at := filepath.Join(dir, name); !slices.Contains(h.named, at) {
			h.folder(at, clone, name, all)
		}
	}
}

// list reads a folder. What a package manager put there is not the operator's, and a .git has a copy. No link is followed.
func (h *hunt) list(dir, parent string, all bool) (is folder) {
	entries, _ := os.ReadDir(dir) // what cannot be listed cannot be searched either
	is.entries, is.folders = len(entries), map[string]bool{}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == ".git":
			is.clone = true
		case e.IsDir() && name != "node_modules" && name != "site-packages":
			is.folders[name] = all || h.s.c.Secret(parent+"/"+name)
		case e.Type().IsRegular() && (all || h.s.c.Secret(parent+"/"+name)):
			is.secrets = append(is.secrets, name)
		}
	}
	return is
}

// enters reports whether the agents' user may enter a folder.
func (h *hunt) enters(stat *unix.Stat_t) bool {
	switch {
	case h.who.uid == 0:
		return true
	case int(stat.Uid) == h.who.uid:
		return stat.Mode&0o100 != 0
	case int(stat.Gid) == h.who.gid || slices.Contains(logGroups(), stat.Gid):
		return stat.Mode&0o010 != 0
	}
	return stat.Mode&0o001 != 0
}

// entry is a file as git has it in an index.
type entry struct {
	name string
	size uint32
	hash []byte
}

const mostIndex = 64 << 20 // bytes

// readIndex reads what git keeps of a clone, by name; nothing where it cannot be read. Git itself is not asked, because it obeys the
// settings of the clone, which an agent may have written.
func readIndex(path string) []entry {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostIndex {
		return nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return entries(raw)
}

// entries are those of an index of version 2, 3 or 4.
func entries(raw []byte) (out []entry) {
	const head, size, hash, flags, fixed = 12, 36, 40, 60, 62
	if len(raw) < head || string(raw[:4]) != "DIRC" {
		return nil
	}
	version, at, name := binary.BigEndian.Uint32(raw[4:]), head, ""
	for range binary.BigEndian.Uint32(raw[8:]) {
		start := at + fixed
		if len(raw) < start+sha1.Size {
			return nil
		}
		from := at
		if raw[at+flags]&0x40 != 0 { // it has more of them
			start += 2
		}
		kept := 0
		if version == 4 { // the name continues the last one, without its end
			cut := int(raw[start] & 0x7f)
			for ; raw[start]&0x80 != 0 && start+1 < len(raw); start++ {
				cut = (cut+1)<<7 | int(raw[start+1]&0x7f)
			}
			start, kept = start+1, max(0, len(name)-cut)
		}
		length := bytes.IndexByte(raw[start:], 0)
		if length < 0 {
			return nil
		}
		name = name[:kept] + string(raw[start:start+length])
		out = append(out, entry{name, binary.BigEndian.Uint32(raw[from+size:]), raw[from+hash : from+flags]})
		if at = start + length + 1; version < 4 {
			at += 7 - (at-1-from)%8
		}
	}
	return out
}

// holds reports whether a file is what git has.
func (e entry) holds(path string) bool {
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) != int(e.size) {
		return false
	}
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(raw)), raw...)) //nolint:gosec // as above
	return bytes.Equal(sum[:], e.hash)
}

// Unseen returns a function that tells whether something that is there is not visible to the commands of a session because nothing
// opens it; nil where everything is.
func (s *Sandbox) Unseen(tier ops.Tier, session Session) func(path string) bool {
	w := s.Command(tier, session)
	if w == nil {
		return nil
	}
	return s.unseen(w)
}

// Hides does the same for the program of an agent.
func (s *Sandbox) Hides(tier ops.Tier, session Session, program string) func(path string) bool {
	if !s.c.Confine {
		return nil
	}
	return s.unseen(s.around(tier, session, program))
}

func (s *Sandbox) unseen(w *confine.Wall) func(path string) bool {
	longest := func(at string, dirs []string) (found int) {
		for _, dir := range dirs {
			if inside(at, dir) {
				found = max(found, len(dir))
			}
		}
		return found
	}
	open := slices.Concat(w.Read, w.Write)
	own := slices.Concat([]string{"/tmp", "/var/tmp", "/dev", "/proc"}, s.protectedDirs(), s.c.OtherStateDirs, s.c.Sockets)
	return func(path string) bool {
		at, err := filepath.EvalSymlinks(path)
		return err == nil && at != "/" && longest(at, own) == 0 && longest(at, w.Closed) >= longest(at, open)
	}
}

// notice is the file that covers hidden ones and says so; without it they are empty. It is the only one in its folder.
func (s *Sandbox) notice() string {
	at := s.noticeFile()
	err := os.MkdirAll(filepath.Join(s.c.StateDir, agentFolder), 0o700)
	for _, dir := range []string{filepath.Dir(filepath.Dir(at)), filepath.Dir(at)} {
		err = errors.Join(err, os.MkdirAll(dir, passable), os.Chmod(dir, passable)) // whatever the umask
	}
	if err != nil || os.WriteFile(at, []byte(confine.Notice), 0o644) != nil { //nolint:gosec // for every user
		return os.DevNull
	}
	return at
}

// noticeFile lies in a folder that has its name, so that the relay knows both.
func (s *Sandbox) noticeFile() string {
	return filepath.Join(s.c.StateDir, agentFolder, "hidden", relay.Notice, relay.Notice)
}
