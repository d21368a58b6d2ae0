package guard

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"claudeops/internal/ops"
)

// unknownDir stands for a folder known only at run time, homeDir for somebody's home.
const (
	unknownDir = "?"
	homeDir    = "~"
)

// within reports whether a clean absolute path is the folder or lies below it.
func within(p, dir string) bool {
	p = path.Clean(p)
	return dir != "" && (p == dir || dir == "/" || strings.HasPrefix(p, dir+"/"))
}

// standardDir reports the directories where the system keeps its programs.
func standardDir(dir string) bool {
	switch path.Clean(dir) {
	case "/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin":
		return true
	}
	return false
}

// places are where things lie, as far as the facts and the file system tell.
type places struct {
	g     *Guard
	facts *Facts
	repos []string
}

// paths are the absolute forms a word may have: one for each folder the command may run in, and the place behind its
// links where that is another one.
func (j *places) paths(s *scope, text string) []string {
	switch {
	case strings.HasPrefix(text, "/"):
		return j.follow(s, text)
	case strings.HasPrefix(text, homeDir):
		switch user, tail, _ := strings.Cut(text, "/"); user {
		case homeDir:
			return []string{above(user, tail)}
		case homeDir + "+":
			return j.paths(s, "./"+tail)
		default: // the home of somebody else, the folder before, or one that pushd left
			return []string{above(unknownDir, tail)}
		}
	case len(s.cwds) == 0:
		return []string{above(unknownDir, text)}
	}
	out := make([]string, 0, len(s.cwds))
	for _, dir := range s.cwds {
		if path.IsAbs(dir) {
			out = append(out, j.follow(s, dir+"/"+text)...)
		} else {
			out = append(out, above(dir, text))
		}
	}
	return out
}

// above joins a home or an unknown folder and a relative path; leaving it leads nowhere known.
func above(dir, text string) string {
	tail := path.Clean(text)
	if tail == ".." || strings.HasPrefix(tail, "../") {
		return unknownDir
	}
	return path.Join(dir, tail)
}

// follow returns the clean form of a path and, where the caller can tell, the place behind its links.
func (j *places) follow(s *scope, p string) []string {
	clean := path.Clean(p)
	if j.facts.Resolve == nil || s.remote || s.container {
		return []string{clean}
	}
	target, err := j.resolve(p)
	switch {
	case err != nil:
		return []string{unknownDir}
	case target == clean:
		return []string{clean}
	}
	return []string{clean, target}
}

// resolve follows links component by component: what stands behind `link/..` is not where the link lies.
func (j *places) resolve(p string) (string, error) {
	at := "/"
	for part := range strings.SplitSeq(p, "/") {
		if part != ".." {
			at = path.Join(at, part)
			continue
		}
		behind, err := j.facts.Resolve(at)
		if err != nil {
			return "", fmt.Errorf("resolve %s: %w", at, err)
		}
		at = path.Dir(path.Clean(behind))
	}
	target, err := j.facts.Resolve(at)
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", at, err)
	}
	return path.Clean(target), nil
}

// protected reports the infrastructure files nobody changes.
func (j *places) protected(p string, glob bool) bool {
	base := strings.ToLower(p)
	for _, f := range j.facts.ProtectedFiles {
		f = strings.ToLower(f)
		if path.IsAbs(f) {
			if within(base, f) {
				return true
			}
			continue
		}
		for part := range strings.SplitSeq(base, "/") {
			if part == f || (glob && strings.ContainsAny(part, "*?[") && Hits(part, f)) {
				return true
			}
		}
	}
	return false
}

// own reports the files of the product itself.
func (j *places) own(p string) bool {
	if t := j.facts.TempDir; j.facts.OwnTemp && p != t && within(p, t) {
		return false // the session's own, in the state folder
	}
	if r := j.facts.ReposDir; r != j.facts.StateDir && within(r, j.facts.StateDir) && within(p, r) {
		return false // the session's own clones
	}
	if within(p, j.facts.StateDir) {
		return true
	}
	for _, o := range j.facts.OwnPaths {
		if within(p, o) {
			return true
		}
	}
	return strings.HasPrefix(path.Base(p), "claudeops") && standardDir(path.Dir(p))
}

// vital reports what of its own files the supervisor lives by: in its state folder what the list names. Elsewhere it is all of them for who
// changes them, and its secrets for who reads them.
func (j *places) vital(p string, glob, read bool) bool {
	above := func(o string) bool { return within(j.facts.StateDir, o) && within(p, o) }
	if above(j.facts.StateDir) || slices.ContainsFunc(j.facts.OwnPaths, above) {
		return j.g.vital.Match(path.Base(p), glob)
	}
	return j.own(p) && !read || p != j.facts.OwnConfig && slices.ContainsFunc(j.facts.OwnSecrets, func(s string) bool { return within(p, s) })
}

// holdsOwn reports folders below which the supervisor keeps its state or a secret, or a clone has one.
func (j *places) holdsOwn(p string, glob bool) bool {
	if i := strings.IndexAny(p, "*?["); glob && i >= 0 {
		p = path.Dir(p[:i] + "x") // what the pattern matches cannot be looked at
	}
	return j.facts.StateDir != "" && within(j.facts.StateDir, p) ||
		slices.ContainsFunc(slices.Concat(j.facts.OwnSecrets, j.facts.Secrets), func(secret string) bool { return within(secret, p) })
}

// volumes reports persistent data.
func (j *places) volumes(p string) bool {
	for _, v := range j.facts.VolumesDirs {
		if within(p, path.Clean(v)) || strings.EqualFold(p, v) {
			return true
		}
	}
	return within(p, "/var/lib/docker/volumes")
}

// obeyed reports files of a clone by who reads them: what is hidden is read by an agent, an editor, git or a forge, and so is a page named
// in capitals that is none of those that people write for each other, and a HEAD, which makes a repository of a folder.
func (j *places) obeyed(p string) bool {
	for _, r := range j.repos {
		for part := range strings.SplitSeq(strings.TrimPrefix(p, r), "/") {
			switch {
			case !within(p, r), scratch(part), j.g.plain.Match(part, false):
			case strings.HasPrefix(part, "."), path.Base(p) == "HEAD":
				return true
			case agentsPage().MatchString(part):
				return true
			}
		}
	}
	return false
}

var agentsPage = ops.Pattern(`^[A-Z][A-Z0-9_-]+(\.local)?\.mdc?$`)

// inRepo returns how deep a path lies below a folder of clones; 0 is outside, 1 the folder itself.
func (j *places) inRepo(p string) int {
	for _, r := range j.repos {
		if within(p, r) {
			return 1 + strings.Count(strings.TrimPrefix(p, r), "/")
		}
	}
	return 0
}

// read judges that the content of a file, or of everything in a folder, is shown or used.
func (j *judge) read(s *scope, f field, what string) {
	j.files = append(j.files, "read "+f.text)
	if f.proc || f.text == "-" || f.text == "" {
		return
	}
	if f.dyn && s.reads {
		return // the wall knows what may be read
	}
	if f.dyn || strings.IndexByte(f.text, hole) >= 0 || f.glob && !j.facts.Walled && !s.remote && !s.container {
		j.refuse(ruleRunTime, what, "the file it reads is known only at run time", "name the file")
		return
	}
	text := strings.TrimPrefix(f.text, "@") // @file is how many programs take a list
	text = strings.TrimPrefix(strings.TrimPrefix(text, "file:"), "//")
	if strings.Contains(text, "://") {
		j.refuse(ruleBash, what+" of "+f.show(), "it may fetch the file from elsewhere", "use curl")
	}
	device := strings.HasPrefix(text, "/proc/") || strings.HasPrefix(text, "/dev/")
	if device && (strings.Contains(text, "/..") || j.g.secrets.Match(text, f.glob)) {
		own := !s.remote && !s.container && within(text, "/proc/"+strconv.Itoa(j.facts.OwnPID))
		j.refuse(orAttack(own, ruleSecrets), what+" of "+f.show(), "it leads through another process", "name the file itself")
	}
	for _, p := range j.paths(s, text) {
		switch {
		case strings.HasPrefix(p, unknownDir) && !s.container:
			j.refuse(ruleRunTime, what+" of "+f.show(), "the folder it lies in is known only at run time", "name the file by its absolute path")
		case j.facts.NetworkClosed && !s.remote && !s.container && (within(p, "/proc/net") || within(p, "/proc/self/net")):
			j.refuse(ruleBash, what+" of "+f.show(), "it would show the network of this session, not that of the host", "use the tool look")
		case p == path.Join(j.facts.StateDir, "cooldown.json") && !f.glob:
		case closedDevice(p):
			j.refuse(ruleSecrets, what+" of "+f.show(), "devices show disks, memory, keys that are typed or what others wait for", "name a file")
		case j.own(p):
			j.refuse(orAttack(j.vital(p, f.glob, true), ruleOwn), what+" of "+f.show(), "the file belongs to the supervisor",
				"only cooldown.json in the state folder may be read")
		case j.g.secrets.Match(p, f.glob):
			j.refuse(ruleSecrets, what+" of "+f.show(), "the file may hold secrets", "report what you need to know instead")
		case j.g.secrets.Holds(p) || j.holdsOwn(p, f.glob):
			j.refuse(ruleSecrets, what+" of "+f.show(), "secrets lie somewhere below that folder", "name a narrower folder or a file")
		}
	}
}

// list judges that names, sizes and times of files are shown.
func (j *judge) list(s *scope, f field, what string) {
	if f.dyn {
		return // what it names is not opened
	}
	for _, p := range j.paths(s, f.text) {
		if j.own(p) && p != path.Join(j.facts.StateDir, "cooldown.json") {
			j.refuse(ruleOwn, what+" of "+f.show(), "the place belongs to the supervisor", "only cooldown.json in the state folder may be read")
		}
		descriptors := path.Base(p) == "fd" && path.Dir(path.Dir(p)) == "/proc" // lsof shows them as well
		if j.g.secrets.Match(p, f.glob) && (strings.HasPrefix(p, "/proc/") && !descriptors || j.g.secrets.Personal(p)) {
			j.refuse(ruleSecrets, what+" of "+f.show(), "the place holds keys or leads through another process", "look elsewhere")
		}
	}
}

// safeDevice reports the devices everybody may write to.
func safeDevice(p string) bool {
	switch p {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/full":
		return true
	}
	return strings.HasPrefix(p, "/dev/fd/") && isDigits(p[len("/dev/fd/"):])
}

// closedDevice reports all other devices but those of random numbers and of the kernel's messages, and what is gone for others once it
// was read.
func closedDevice(p string) bool {
	if p == "/proc/kmsg" || strings.HasPrefix(path.Base(p), "trace_pipe") {
		return true
	}
	return startsWith(strings.Split(strings.TrimPrefix(p, "/"), "/"), []string{"dev"}) && !safeDevice(p) &&
		p != "/dev/urandom" && p != "/dev/random" && p != "/dev/kmsg"
}

// write judges that a file is created or changed.
func (j *judge) write(s *scope, f field, what string) {
	j.change(s, f, what, false)
}

// change judges that a file is written or, with remove, deleted or moved away.
func (j *judge) change(s *scope, f field, what string, remove bool) {
	j.files = append(j.files, "change "+f.text)
	if f.proc {
		return
	}
	if f.dyn || f.viaVar || f.text == "" || (f.glob && !remove) || strings.IndexByte(f.text, hole) >= 0 {
		j.refuse(ruleRunTime, what, "the file it changes is known only at run time", "write the file name out")
		return
	}
	what += " " + f.show()
	if strings.IndexFunc(f.text, func(r rune) bool { return r >= utf8.RuneSelf && !unicode.In(r, unicode.L, unicode.M, unicode.N) }) >= 0 {
		j.refuse(ruleText, what, "its name holds a character that may only look like a dash or slash", "use plain characters in file names")
		return
	}
	for _, p := range j.paths(s, f.text) {
		if bad := j.misplaced(p, f.glob, what); bad != nil {
			j.add(*bad)
			continue
		}
		if safeDevice(p) {
			j.need(s, ops.Tier1, ruleWrite, what)
			continue
		}
		j.stored = cmp.Or(j.stored, what)
		switch path.Base(p) {
		case "config", "objects", "refs", "hooks", "commondir", "gitdir", "packed-refs":
			j.planted = what
		}
		at := *s
		at.loop = s.loop && (remove || !j.temporary(p)) // no cooldown counts what is noted down there
		j.need(&at, ops.Tier2, ruleWrite, what)
	}
}

// misplaced says why a file may not be changed where it is, or nil.
func (j *places) misplaced(p string, glob bool, what string) *finding {
	bad := finding{need: never, what: what}
	// Repositories may be in the temporary folder; what is in them counts as theirs.
	temporary := j.temporary(p) && j.inRepo(p) == 0
	switch {
	case safeDevice(p):
		return nil
	case j.volumes(p):
		bad.rule, bad.why, bad.hint = ruleVolumes, "persistent data volumes are never touched", "report it for a human"
	case j.protected(p, glob):
		bad.rule, bad.why, bad.hint = ruleInventory, "infrastructure files are never changed by an agent, only read",
			"propose the change in an issue for a human"
	case j.own(p) || !temporary && (j.g.owned.Match(p, glob) || j.obeyed(p)):
		bad.rule, bad.hint = orAttack(j.vital(p, glob, false), ruleOwn), "leave it alone"
		bad.why = "the file steers the supervisor, an agent, a shell, git, an editor or a forge"
	case strings.HasPrefix(p, unknownDir):
		bad.rule, bad.why = ruleRunTime, "the folder it lies in is known only at run time"
		bad.hint = "cd into a repository by its absolute path with && first"
	case j.inRepo(p) > 0 || temporary:
		return nil
	default:
		bad.rule, bad.why = ruleWrite, "files change only inside the configured repositories and the temporary folder"
		bad.hint = "cd into a repository with && first, or use the temporary folder"
		if j.facts.OwnTemp {
			bad.hint = "cd into a repository with && first, or use $TMPDIR"
		}
	}
	return &bad
}
