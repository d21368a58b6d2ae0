package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Cgroup is the control group of one session. Where none can be made there is none: it only makes
// certain what is also done without it.
type Cgroup struct {
	Path string
}

// cgroupParents are the folders a session's group may lie in: our own group, so that what ends
// the supervisor with all its children ends the sessions too, and the root.
func cgroupParents() []string {
	root := ""
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(dir + "/cgroup.controllers"); err == nil {
			root = dir
			break
		}
	}
	if root == "" {
		return nil
	}
	parents := []string{root}
	data, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return parents
	}
	for line := range strings.Lines(string(data)) {
		own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if ok && own != "/" && !strings.Contains(own, "..") {
			parents = []string{root + own, root}
		}
	}
	return parents
}

const (
	// cgroupPrefix begins the name of every session's group.
	cgroupPrefix = "claudeops-"
	// shortestKey keeps groups of other programs with the same prefix from being mistaken for a session's.
	shortestKey = 16
)

func cgroupName(key string) (string, bool) { return cgroupPrefix + key, FileNameSafe(key) }

// FileNameSafe reports whether the key of a session may be part of a file name.
func FileNameSafe(key string) bool {
	return key != "" && len(key) <= 200 && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}

// MakeCgroup makes the group of a session, or returns nil.
func MakeCgroup(key string) *Cgroup {
	name, ok := cgroupName(key)
	if !ok {
		return nil
	}
	for _, parent := range cgroupParents() {
		path := parent + "/" + name
		if err := os.Mkdir(path, 0o755); err == nil || errors.Is(err, os.ErrExist) {
			return &Cgroup{Path: path}
		}
	}
	return nil
}

// Limits are what the processes of a session may use together. Zero means any amount.
type Limits struct {
	Processes int
	Memory    int64 // bytes
}

// Limit sets the limits of a group and reports whether the machine has them. The controllers have to be switched on in the group above.
func (g *Cgroup) Limit(l Limits) bool {
	if g == nil {
		return false
	}
	if _, err := os.Stat(g.Path + "/pids.max"); err != nil {
		parent := g.Path[:strings.LastIndexByte(g.Path, '/')]
		_ = write(parent+"/cgroup.subtree_control", "+pids +memory") // refused where processes are in the group
	}
	return g.set("pids.max", int64(l.Processes)) && g.set("memory.max", l.Memory)
}

func (g *Cgroup) set(name string, most int64) bool {
	if most <= 0 {
		return true
	}
	return write(g.Path+"/"+name, strconv.FormatInt(most, 10)) == nil
}

// write sets a file that the kernel made; one that is not there is not created.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// LimitsAvailable reports whether sessions can be limited here.
func LimitsAvailable() bool {
	g := MakeCgroup("doctor-limits")
	defer g.Remove()
	return g.Limit(Limits{Processes: 1 << 15, Memory: 1 << 40})
}

// CgroupAvailable reports whether sessions get a control group of their own here.
func CgroupAvailable() bool {
	g := MakeCgroup("doctor")
	g.Remove()
	return g != nil
}

// FindCgroup returns the group that a dead supervisor left behind, or nil.
func FindCgroup(key string) *Cgroup {
	name, ok := cgroupName(key)
	if !ok {
		return nil
	}
	for _, parent := range cgroupParents() {
		path := parent + "/" + name
		if _, err := os.Stat(path); err == nil {
			return &Cgroup{Path: path}
		}
	}
	return nil
}

// Open returns the folder for a process to be started in.
func (g *Cgroup) Open() (*os.File, error) { return os.Open(g.Path) }

// addPasses bounds how often Add looks for what a process started before it was moved.
const addPasses = 10

// Add moves a process into the group, with everything that it has started already. What a member starts is a member from its start, so
// the search ends when it finds nobody outside.
func (g *Cgroup) Add(pid int) error {
	root, err := ReadStat(pid)
	if err != nil {
		return err
	}
	if err := g.move(pid); err != nil {
		return err
	}
	for range addPasses {
		all, err := PIDs()
		if err != nil {
			return err
		}
		inside := map[Ident]bool{}
		for _, d := range g.members() {
			inside[d] = true
		}
		moved := false
		for _, d := range withDescendants(all, []Ident{root.Ident}) {
			if inside[d] {
				continue
			}
			moved = true
			if err := g.move(d.PID); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
		if !moved {
			return nil
		}
	}
	return nil
}

func (g *Cgroup) move(pid int) error { return write(g.Path+"/cgroup.procs", strconv.Itoa(pid)) }

// Kill ends everything in the group. Kernels before 5.14 cannot do that; there the members are
// killed one by one like all others.
func (g *Cgroup) Kill() {
	if g.populated() {
		_ = os.WriteFile(g.Path+"/cgroup.kill", []byte("1"), 0)
	}
}

// members are the processes in the group that live.
func (g *Cgroup) members() []Ident {
	if g == nil {
		return nil
	}
	data, err := os.ReadFile(g.Path + "/cgroup.procs")
	if err != nil {
		return nil
	}
	var out []Ident
	for field := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(field)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if st, err := ReadStat(pid); err == nil && !st.Zombie {
			out = append(out, st.Ident)
		}
	}
	return out
}

func (g *Cgroup) populated() bool { return g.says("populated 1") }

// Empty reports whether the kernel says that no process is in the group. Without a group nothing is known.
func (g *Cgroup) Empty() bool { return g.says("populated 0") }

func (g *Cgroup) says(state string) bool {
	if g == nil {
		return false
	}
	data, err := os.ReadFile(g.Path + "/cgroup.events")
	return err == nil && bytes.Contains(data, []byte(state))
}

// Remove takes the group away, with those a session made inside it. The last process may need a
// moment to leave it; a group that stays is found again by the next sweep.
func (g *Cgroup) Remove() {
	if g == nil {
		return
	}
	for pause := time.Millisecond; pause < 500*time.Millisecond; pause *= 2 {
		err := syscall.Rmdir(g.Path)
		if err == nil || !errors.Is(err, syscall.EBUSY) && !errors.Is(err, syscall.ENOTEMPTY) {
			return
		}
		g.removeInner()
		time.Sleep(pause) //nolint:forbidigo // the kernel does not tell when a group can be removed
	}
}

func (g *Cgroup) removeInner() {
	entries, err := os.ReadDir(g.Path)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			inner := Cgroup{Path: g.Path + "/" + e.Name()}
			inner.removeInner()
			_ = syscall.Rmdir(inner.Path)
		}
	}
}
