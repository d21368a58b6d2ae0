package wall

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

// closed is what a session does not see of what is open, in order, as it is when the session starts: what others may not read, and the
// places of secrets and of the supervisor. Sessions without an id share what was found last.
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
	out := fold(w.found)
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

// notice is the file that covers hidden ones and says so; without it they are empty.
func (s *Sandbox) notice() string {
	at := filepath.Join(s.c.StateDir, agentFolder, relay.Notice)
	if os.MkdirAll(filepath.Dir(at), 0o700) != nil || os.WriteFile(at, []byte(confine.Notice), 0o644) != nil { //nolint:gosec // for every user
		return os.DevNull
	}
	return at
}
