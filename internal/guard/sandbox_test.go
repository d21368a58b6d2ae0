//go:build linux

package guard

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sandbox gives text to bash where nothing can happen: a PATH without programs, so that every program is «not found»
// and only its words are noted; namespaces of its own and a user nobody else is, where that is permitted; limits on
// processor time, files and processes; no slash in any text, so that no file outside its folder can be named.
type sandbox struct {
	bash  string
	walls walls
	// patience is how long a candidate may take on the clock before it is cut. Its processor time ends long before.
	patience time.Duration
}

// walls are what stands between a candidate and the machine.
type walls struct {
	namespaces uintptr
	uid        int // whose processes and folders they are
}

const (
	isolated = syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	stranger = 65534 // who a candidate believes to be
)

// newSandbox takes the strongest walls this machine permits.
func newSandbox(t testing.TB) *sandbox {
	t.Helper()
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal("install bash: the guard is compared with it")
	}
	// A user of its own, because the limit on processes counts all of a user's, and bash waits half a minute at it.
	choices := []walls{{syscall.CLONE_NEWUSER | isolated, os.Getuid()}, {0, os.Getuid()}}
	if os.Getuid() == 0 {
		own := 60100 + os.Getpid()%5000
		choices = []walls{{syscall.CLONE_NEWUSER | isolated, own}, {isolated, own}, {0, own}}
	}
	for _, w := range choices {
		s := &sandbox{path, w, 20 * time.Second}
		got := s.run(t, []string{"seq a"}, viaArgument)
		if len(got[0].commands) == 1 {
			return s
		}
	}
	t.Fatal("bash does not run in any sandbox: is the folder for temporary files closed to other users?")
	return nil
}

func (s *sandbox) String() string {
	return fmt.Sprintf("user namespace %t, other namespaces %t, uid %d", s.walls.namespaces&syscall.CLONE_NEWUSER != 0, s.walls.namespaces&isolated != 0, s.walls.uid)
}

func (s *sandbox) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Cloneflags: s.walls.namespaces, Pdeathsig: syscall.SIGKILL}
	inner := s.walls.uid
	if s.walls.namespaces&syscall.CLONE_NEWUSER != 0 {
		inner = stranger
		gid := s.walls.uid
		if os.Getuid() != 0 {
			gid = os.Getgid()
		}
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: stranger, HostID: s.walls.uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: stranger, HostID: gid, Size: 1}}
		a.GidMappingsEnableSetgroups = os.Getuid() == 0
	}
	if inner != os.Getuid() {
		a.Credential = &syscall.Credential{Uid: uint32(inner), Gid: uint32(inner), NoSetGroups: os.Getuid() != 0}
	}
	return a
}

// manner is how bash gets the text: agents' commands pass through both.
type manner string

const (
	viaArgument manner = `exec "$SHELL_UNDER_TEST" --noprofile --norc -c "$script"`
	viaEval     manner = `eval "$script"`
)

// outerScript says which candidate it starts before it does, so that one that hangs can be told and cut. The limits hold
// for each candidate by itself.
const outerScript = `cd work || exit 9
for f in ../in.*; do
  IFS= read -r -d '' script < "$f"
  printf '%%s\n' "${f#../in.}" >&3
  ( ulimit -S -t 1 -f 64 -n 64 -v 1000000 %s
    export GUARD_LOG=$LOGS${f#../in}
    %s
  ) 3>&- </dev/null >/dev/null 2>&1
done
exit 0`

// noted is what bash did with one candidate.
type noted struct {
	commands [][]string // the words of every program it tried to run
	cut      bool       // it hung, and what it would have done next is not known
}

// run executes the candidates one after the other.
func (s *sandbox) run(t testing.TB, scripts []string, how manner) []noted {
	t.Helper()
	var out []noted
	for len(scripts) > 0 && t.Context().Err() == nil {
		some := s.start(t, scripts, how)
		out = append(out, some...)
		scripts = scripts[len(some):]
	}
	for range scripts {
		out = append(out, noted{cut: true})
	}
	return out
}

// start executes the candidates up to one that hangs.
func (s *sandbox) start(t testing.TB, scripts []string, how manner) []noted {
	t.Helper()
	dir := s.prepare(t, scripts)
	defer func() { _ = os.RemoveAll(dir) }()
	limit := "-u 128"
	if os.Getuid() != 0 && s.walls.namespaces == 0 {
		limit = "" // it would count what else this user runs
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	logs := filepath.Join(dir, "logs", "log")
	cmd := exec.CommandContext(ctx, s.bash, "--noprofile", "--norc", "-c", fmt.Sprintf(outerScript, limit, how))
	cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = dir, s.attributes(), time.Second
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = []string{
		"PATH=" + dir + "/none", "HOME=" + dir + "/work", "LOGS=" + logs, "SHELL_UNDER_TEST=" + s.bash,
		`BASH_FUNC_command_not_found_handle%%=() { builtin printf '%s\0' "$#" "$@" >> "$GUARD_LOG.$BASHPID"; [[ $GUARD_LOG == *[02468] ]]; }`, // every other one sees its programs fail
	}
	progress, end, err := os.Pipe()
	must(t, err)
	defer func() { _ = progress.Close() }()
	cmd.ExtraFiles = []*os.File{end}
	err = cmd.Start()
	_ = end.Close()
	if err != nil {
		return make([]noted, len(scripts)) // these walls are not permitted
	}
	reached := watch(progress, s.patience, cancel)
	failed := cmd.Wait()
	if failed == nil {
		reached = len(scripts)
	}
	out := make([]noted, max(reached, 1))
	for i := range out {
		out[i] = noted{commands: commandsIn(fmt.Sprintf("%s.%05d", logs, i)), cut: failed != nil && i == len(out)-1}
	}
	return out
}

// watch follows the candidates, cuts at one that hangs, and returns how many were started.
func watch(progress *os.File, patience time.Duration, cut func()) (started int) {
	slow := time.AfterFunc(patience, cut)
	defer slow.Stop()
	lines := bufio.NewScanner(progress)
	for lines.Scan() {
		started++
		slow.Reset(patience)
	}
	return started
}

// prepare writes the candidates into a folder in which the other user may only write below work and logs.
func (s *sandbox) prepare(t testing.TB, scripts []string) string {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	dir, err := os.MkdirTemp("", "guard-differential-") //nolint:usetesting // thousands of batches, each is removed at once
	must(err)
	must(os.Chmod(dir, 0o755))
	for _, name := range []string{"work", "logs"} {
		d := filepath.Join(dir, name)
		must(os.Mkdir(d, 0o755))
		if os.Getuid() == 0 {
			must(os.Chown(d, s.walls.uid, s.walls.uid))
		}
	}
	for i, script := range scripts {
		must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("in.%05d", i)), []byte(script), 0o644))
	}
	return dir
}

// commandsIn reads what the handler wrote: the number of words, then the words. Each process has a log of its own, because
// bash writes out at every line break, and what two wrote at once could be read as a third.
func commandsIn(log string) (out [][]string) {
	files, _ := filepath.Glob(log + ".*") // the pattern is ours
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			out = append(out, commandsOf(data)...)
		}
	}
	return out
}

func commandsOf(data []byte) (out [][]string) {
	words := strings.Split(string(data), "\x00")
	for len(words) > 1 {
		n, err := strconv.Atoi(words[0])
		if err != nil || n < 1 || n >= len(words)-1 {
			break // the limit cut it
		}
		out = append(out, slices.Clone(words[1:1+n]))
		words = words[1+n:]
	}
	return out
}
