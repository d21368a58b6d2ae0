package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"claudeops/internal/ops"
)

// Borrower is a session that may change files of the operator's.
type Borrower struct {
	Session     ops.Session
	Environment ops.Environment
	Folder      string   // its own
	Writable    []string // what it may change beside the repositories
	Mounts      bool     // it has mounts of its own
	Held        bool     // walls keep it from everything that it is not given
	Covered     []string // files that mounts cover
}

// Loan is what a session gets of the clones, and what is looked at when it ends. It is kept in a file, so that it outlives the supervisor.
// The session never reaches the .git of a clone, so a commit that the supervisor did not bring back is the operator's.
type Loan struct {
	Session     ops.SessionID     `json:"session"`
	Cycle       ops.CycleID       `json:"cycle"`
	Environment string            `json:"environment"`
	Folder      string            `json:"folder"`
	Roots       []string          `json:"roots"`           // what it changes in place
	Repos       string            `json:"repos,omitempty"` // its own clones, where it may not change those of the operator in place
	Git         map[string]string `json:"git"`             // its copy of the .git of each clone, below Folder, by the clone
	Found       map[string]string `json:"found"`           // what steers programs in the roots, and which folder that lay in
	Held        bool              `json:"held"`
	Events      []ops.Event       `json:"events,omitempty"`
	Over        bool              `json:"over,omitempty"` // it was returned; its events may not be recorded yet
}

const (
	lentFolder = "lent" // of loans, below the folder of Commits
	leftFolder = "left" // what was taken away from where sessions left it
	// OperatorObjects is a folder in the copy of a .git: the objects of the operator's clone are mounted there.
	OperatorObjects = "operator-objects"

	mostReturned = 500      // commits of one branch
	mostRefs     = 64 << 20 // bytes
	mostLeft     = 1 << 20  // bytes of a file that are kept
)

// Lend gives a session its copies, and notes what lies in the folders that it may change.
func (c *Commits) Lend(ctx context.Context, b Borrower) (Loan, error) {
	l := Loan{
		Session: b.Session.ID, Cycle: b.Session.CycleID, Environment: b.Environment.Name, Folder: b.Folder, Held: b.Held,
		Git: map[string]string{}, Found: map[string]string{},
	}
	repos := realFolder(b.Environment.ReposDir)
	if b.Held && !b.Mounts && repos != "" {
		l.Repos = filepath.Join(b.Folder, "repos")
	}
	for _, dir := range append([]string{repos}, b.Writable...) {
		if dir = realFolder(dir); dir == "" {
			continue
		}
		found := map[string]string{}
		if err := c.find(ctx, dir, found); err != nil {
			return l, err
		}
		own := dir == repos && l.Repos != ""
		for _, path := range slices.Sorted(maps.Keys(found)) {
			if repo := filepath.Dir(path); filepath.Base(path) == ".git" && b.Held && (b.Mounts || own) && l.Git[repo] == "" {
				at := filepath.Join("git", strconv.Itoa(len(l.Git)))
				if own {
					at = filepath.Join("repos", strings.TrimPrefix(repo, repos), ".git")
				}
				err := c.copyGit(ctx, repo, filepath.Join(b.Folder, at), l.who(c.Host), b.Mounts)
				if err == nil && b.Mounts {
					err = c.overlook(ctx, repo, filepath.Join(b.Folder, at), b.Covered)
				}
				if err != nil {
					l.note(ops.VerbCommitKept, ops.LevelInfo, "The session could not commit to %s: %v.", repo, err)
					continue
				}
				l.Git[repo] = at
			}
		}
		if !own {
			l.Roots = append(l.Roots, dir)
			maps.Copy(l.Found, found)
		}
	}
	if l.Repos != "" {
		if err := os.MkdirAll(l.Repos, 0o700); err != nil {
			return l, fmt.Errorf("make folder of clones: %w", err)
		}
	}
	return l, c.keep(b.Session.Key, l)
}

// Loan reads what a session has; an error that is fs.ErrNotExist means nothing.
func (c *Commits) Loan(key string) (Loan, error) {
	var l Loan
	raw, err := os.ReadFile(c.loanFile(key))
	if err == nil {
		err = json.Unmarshal(raw, &l)
	}
	return l, err
}

func (c *Commits) loanFile(key string) string {
	return filepath.Join(c.Dir, lentFolder, filepath.Base(key)+".json")
}

func (c *Commits) keep(key string, l Loan) error {
	raw, err := json.Marshal(l)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Join(c.Dir, lentFolder), 0o700), os.WriteFile(c.loanFile(key), raw, 0o600))
	}
	if err != nil {
		return fmt.Errorf("note what the session has of the clones: %w", err)
	}
	return nil
}

// Loans are the keys of sessions whose loans were not returned.
func (c *Commits) Loans() []string {
	names, _ := filepath.Glob(c.loanFile("*")) // the pattern is right
	for i, name := range names {
		names[i] = strings.TrimSuffix(filepath.Base(name), ".json")
	}
	return names
}

// Return brings back the branches of a session that has ended, and takes away what it left for programs to obey. No process of it may be
// left. The events say what was done; they are the same each time until Forget.
func (c *Commits) Return(ctx context.Context, key string) ([]ops.Event, error) {
	defer c.lock()()
	l, err := c.Loan(key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the session had of the clones: %w", err)
	}
	if l.Over {
		return l.Events, nil
	}
	for _, repo := range slices.Sorted(maps.Keys(l.Git)) {
		c.bring(ctx, &l, repo)
	}
	for _, root := range l.Roots {
		c.sweep(ctx, &l, root)
	}
	if !l.Held { // whatever is checked out now, the session may have made it
		for path := range l.Found {
			if head, err := c.head(ctx, filepath.Dir(path)); err == nil && filepath.Base(path) == ".git" {
				err = c.Trust.NoteCommit(ctx, c.Host, filepath.Dir(path), head, true, c.Clock())
				l.failed("note the commit of "+path, err)
			}
		}
	}
	for i := range l.Events {
		if c.Redact != nil {
			l.Events[i].Reason = c.Redact(l.Events[i].Reason)
		}
	}
	l.Over = true
	if err := c.keep(key, l); err != nil {
		return l.Events, err
	}
	return l.Events, os.RemoveAll(l.Folder)
}

// Forget removes a loan that was returned, once its events are recorded. One that could not be returned stays for the next start.
func (c *Commits) Forget(key string) error {
	l, err := c.Loan(key)
	if err == nil && l.Over {
		err = os.Remove(c.loanFile(key))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget what the session had of the clones: %w", err)
	}
	return nil
}

// bringNow brings back what a session that still works has committed to a clone.
func (c *Commits) bringNow(ctx context.Context, key, repo string) error {
	defer c.lock()()
	l, err := c.Loan(key)
	if errors.Is(err, fs.ErrNotExist) || err == nil && l.Git[repo] == "" {
		return nil
	}
	if err == nil {
		c.bring(ctx, &l, repo)
		err = c.keep(key, l)
	}
	return err
}

// who is the author of what the session commits.
func (l *Loan) who(host string) string {
	return fmt.Sprintf("Claude Ops (session %d) <claudeops@%s>", l.Session, host)
}

func (l *Loan) note(verb ops.Verb, level ops.Level, format string, args ...any) {
	e := ops.Event{
		CycleID: &l.Cycle, SessionID: &l.Session, Environment: l.Environment, Level: level, Verb: verb,
		Reason: ops.OneLine(fmt.Sprintf(format, args...), 2000),
	}
	if !slices.ContainsFunc(l.Events, func(o ops.Event) bool { return o.Reason == e.Reason }) {
		l.Events = append(l.Events, e)
	}
}

func (l *Loan) failed(what string, err error) {
	if err != nil {
		l.note(ops.VerbCommitKept, ops.LevelWarning, "The supervisor could not %s: %v.", what, err)
	}
}

// find lists what steers programs below a folder: by its name, or because git takes it for a repository.
func (c *Commits) find(ctx context.Context, dir string, found map[string]string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for files that programs obey: %w", err)
	}
	id, names := "", map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	if info, err := os.Stat(dir); err == nil {
		stat, _ := info.Sys().(*syscall.Stat_t)
		id = fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
	}
	if names["HEAD"] && (names["commondir"] || names["objects"] && names["refs"]) {
		found[dir] = "repository" // git runs what its settings name
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case c.Steers(e.Name()):
			found[path] = id
		case e.IsDir():
			if err := errors.Join(ctx.Err(), c.find(ctx, path, found)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep takes away what steers programs and was not there before. What was there cannot be changed while the folder it lies in is the same.
func (c *Commits) sweep(ctx context.Context, l *Loan, root string) {
	_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() { // a folder that its owner may not read hides what lies in it
			if info, bad := e.Info(); bad == nil && os.Geteuid() != 0 && info.Mode().Perm()&0o500 != 0o500 {
				_ = os.Chmod(path, 0o700) //nolint:gosec // one of another user stays closed, and was before
			}
		}
		return nil
	})
	found := map[string]string{}
	l.failed("look at all that the session left", c.find(ctx, root, found))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if before, known := l.Found[path]; known && before == found[path] {
			continue
		}
		to := filepath.Join(c.Dir, leftFolder, strconv.FormatInt(int64(l.Session), 10), strings.TrimPrefix(path, filepath.Dir(root)))
		err := takeAway(path, to)
		l.failed("take away "+path, err)
		if err == nil {
			l.note(ops.VerbFileTaken, ops.LevelWarning, "The session left %s, which programs obey; the supervisor moved it to %s.", path, to)
		}
	}
}

// takeAway moves a file or folder out of reach. Only plain files are kept, as text that nothing runs.
func takeAway(path, to string) error {
	err := filepath.WalkDir(path, func(name string, e fs.DirEntry, err error) error {
		at := filepath.Join(to, strings.TrimPrefix(name, path))
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return errors.Join(os.Chmod(name, 0o700), os.MkdirAll(at, 0o700)) //nolint:gosec // it is a folder, and about to go
		case !e.Type().IsRegular():
			target, _ := os.Readlink(name) // a socket has none
			return errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte("a "+e.Type().String()+" "+target+"\n"), 0o600))
		}
		from, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }()
		raw, err := io.ReadAll(io.LimitReader(from, mostLeft))
		return errors.Join(err, os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, raw, 0o600))
	})
	gone := os.RemoveAll(path)
	if errors.Is(gone, fs.ErrPermission) && os.Chmod(filepath.Dir(path), 0o700) == nil { //nolint:gosec // the folder is the session's
		gone = os.RemoveAll(path)
	}
	return errors.Join(err, gone)
}

// copyGit makes the copy of the .git of a clone: its branches and remotes, and nothing that runs a program. The objects are the operator's.
func (c *Commits) copyGit(ctx context.Context, repo, dir, who string, mounted bool) error {
	if err := checkClone(repo); err != nil {
		return err
	}
	settings, err := c.settings(ctx, repo, who)
	if err != nil {
		return err
	}
	git := filepath.Join(repo, ".git")
	refs, head, err := refsOf(git)
	if err != nil {
		return err
	}
	objects, copied := filepath.Join("..", OperatorObjects), []string{"index", "shallow", "info/exclude", "info/sparse-checkout"}
	if !mounted {
		objects, copied = filepath.Join(git, "objects"), copied[1:]
	}
	if err := newGit(dir, settings, head, refs, objects); err != nil {
		return err
	}
	for _, name := range copied {
		raw, err := os.ReadFile(filepath.Join(git, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), raw, 0o600)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if mounted {
		return errors.Join(os.Mkdir(filepath.Join(dir, OperatorObjects), 0o700), os.Mkdir(filepath.Join(dir, "modules"), 0o700))
	}
	if _, born := refs[strings.TrimPrefix(head, "ref: ")]; born || commitForm().MatchString(head) {
		_, err = c.git(ctx, filepath.Dir(dir), "--git-dir="+dir, "--work-tree="+filepath.Dir(dir), "reset", "--quiet", "--hard")
	}
	return err
}

// overlook lets a copy know nothing of covered files, so that no cover is a change: those in its index stay, others are ignored.
func (c *Commits) overlook(ctx context.Context, repo, dir string, covered []string) error {
	exclude, err := os.ReadFile(filepath.Join(dir, "info/exclude"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	call := gitCall{dir: dir, args: []string{"--literal-pathspecs", "--git-dir=.", "--work-tree=.", "ls-files", "-z", "--"}}
	args := len(call.args)
	quoted := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `, "\n", "?")
	for _, path := range covered {
		if name, below := strings.CutPrefix(path, repo+"/"); below {
			call.args = append(call.args, name)
			exclude = fmt.Appendf(exclude, "\n/%s\n", quoted.Replace(name))
		}
	}
	if len(call.args) == args {
		return nil
	}
	call.input, err = c.call(ctx, call)
	if err == nil && len(call.input) > 0 {
		call.args = []string{"--git-dir=.", "--work-tree=.", "update-index", "--skip-worktree", "-z", "--stdin"}
		_, err = c.call(ctx, call)
	}
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "info/exclude"), exclude, 0o600))
}

// takenSettings are the settings of a clone that its copy has too: none of them runs a program.
var takenSettings = ops.Pattern(`^(remote\..+\.(url|fetch)|branch\..+\.(remote|merge)|` +
	`core\.(filemode|ignorecase|symlinks|autocrlf|eol|precomposeunicode|sparsecheckout|sparsecheckoutcone))$`)

func (c *Commits) settings(ctx context.Context, repo, who string) (string, error) {
	out, err := c.git(ctx, "/", "config", "--file", filepath.Join(repo, ".git/config"), "--null", "--list")
	if err != nil {
		return "", err
	}
	name, mail, _ := strings.Cut(strings.TrimSuffix(who, ">"), " <")
	var text strings.Builder
	fmt.Fprintf(&text, "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[user]\n\tname = %q\n\temail = %q\n", name, mail)
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		if strings.HasPrefix(key, "extensions.") {
			return "", fmt.Errorf("it has the git setting %s, which a copy would lack", key)
		}
		if !takenSettings().MatchString(key) || strings.ContainsAny(entry, "\r") || strings.Contains(value, "\n") {
			continue
		}
		if u, err := url.Parse(value); err == nil && u.User != nil && u.Host != "" {
			u.User = nil // keys stay outside
			value = u.String()
		}
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
		section, rest, _ := strings.Cut(key, ".")
		if i := strings.LastIndex(rest, "."); i >= 0 {
			section, rest = fmt.Sprintf(`%s "%s"`, section, quoted.Replace(rest[:i])), rest[i+1:]
		}
		fmt.Fprintf(&text, "[%s]\n\t%s = \"%s\"\n", section, rest, quoted.Replace(value))
	}
	return text.String(), nil
}

// newGit makes a repository without asking git for it.
func newGit(dir, settings, head string, refs map[string]string, objects string) error {
	var packed strings.Builder
	packed.WriteString("# pack-refs with: sorted\n")
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		fmt.Fprintf(&packed, "%s %s\n", refs[name], name)
	}
	for _, folder := range []string{"info", "objects/info", "objects/pack", "refs/heads"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"HEAD": head + "\n", "config": settings, "packed-refs": packed.String(), "objects/info/alternates": objects + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

var refForm = ops.Pattern(`^refs/[^\x00-\x20\x7f~^:?*\[\\]+$`)

func refsOf(git string) (refs map[string]string, head string, err error) {
	root, err := os.OpenRoot(git)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = root.Close() }()
	return readRefs(root)
}

// readRefs reads the branches and tags of a repository, and what is checked out. Git would read its settings as well.
func readRefs(root *os.Root) (refs map[string]string, head string, err error) {
	refs = map[string]string{}
	add := func(hash, name string) {
		if commitForm().MatchString(hash) && refForm().MatchString(name) {
			refs[name] = hash
		}
	}
	read := func(name string) string {
		f, bad := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if bad != nil {
			return ""
		}
		defer func() { _ = f.Close() }()
		raw, bad := io.ReadAll(io.LimitReader(f, mostRefs))
		err = errors.Join(err, bad)
		return strings.TrimSpace(string(raw))
	}
	for line := range strings.SplitSeq(read("packed-refs"), "\n") {
		hash, name, _ := strings.Cut(line, " ")
		add(hash, name)
	}
	bad := fs.WalkDir(root.FS(), "refs", func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			add(read(name), name)
		}
		return nil // git may just have removed it
	})
	head = read("HEAD")
	if name, symbolic := strings.CutPrefix(head, "ref: "); !commitForm().MatchString(head) && (!symbolic || !refForm().MatchString(name)) {
		err = errors.Join(err, errors.New("it is not known what is checked out"))
	}
	if _, missing := root.Lstat("reftable"); missing == nil {
		err = errors.Join(err, errors.New("its branches are kept in tables"))
	}
	return refs, head, errors.Join(err, bad)
}

// realFolder is a folder without links in its path; empty where there is none.
func realFolder(dir string) string {
	at, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(at) {
		return ""
	}
	return at
}
