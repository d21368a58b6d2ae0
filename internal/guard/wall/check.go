package wall

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

// trialTime bounds a trial of a layer.
const trialTime = 10 * time.Second

// Check tells whether every layer that is on for a tier can be set up here and now. The error is a *LayerError that says
// what to do; the tier must not run then.
func (s *Sandbox) Check(tier ops.Tier) error {
	if !s.on(tier) {
		return nil
	}
	if err := s.known(tier); err != nil {
		return err
	}
	if info, err := os.Stat(s.c.StateDir); err != nil || !info.IsDir() {
		return fmt.Errorf("set up sandbox: there is no state folder %s", s.c.StateDir)
	}
	if err := s.checkUID(tier); err != nil {
		return err
	}
	if s.c.Required {
		return s.checkRequired(tier)
	}
	return nil
}

// person is the user an agent runs as.
type person struct {
	uid, gid int
}

func (p person) credential() *syscall.Credential {
	return &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.gid), Groups: logGroups()} //nolint:gosec // lookUp checked the range
}

// lookUp finds the group of a user. One that has no name has a group of its own number.
func lookUp(uid int) (person, error) {
	refuse := func(why string) (person, error) {
		return person{}, &LayerError{
			Layer: LayerUID,
			Why:   why,
			Fix:   "name a user of its own for the agent, with useradd --system, or set 0 to switch the layer off",
		}
	}
	if uid < 0 || uid > 1<<31-1 {
		return refuse(fmt.Sprintf("%d is no user id", uid))
	}
	if uid == os.Geteuid() {
		return refuse(fmt.Sprintf("%d is the user of the supervisor itself", uid))
	}
	who := person{uid: uid, gid: uid}
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		if who.gid, err = strconv.Atoi(u.Gid); err != nil {
			return refuse(fmt.Sprintf("the group %q of user %d is no number", u.Gid, uid))
		}
	}
	if who.gid == 0 || who.gid == os.Getegid() {
		return refuse(fmt.Sprintf("user %d is in group %d, as the supervisor or root is", uid, who.gid))
	}
	return who, nil
}

// owner is the user of what the agents of a tier write: without one of their own, that of the supervisor.
func (s *Sandbox) owner(tier ops.Tier) (person, error) {
	if uid := s.c.UIDs[tier]; uid != 0 {
		return lookUp(uid)
	}
	return person{uid: os.Geteuid(), gid: os.Getegid()}, nil
}

// checkUID tells whether the agents of a tier can run as their user.
func (s *Sandbox) checkUID(tier ops.Tier) error {
	uid := s.c.UIDs[tier]
	if uid == 0 {
		return nil
	}
	who, err := lookUp(uid)
	if err != nil {
		return err
	}
	if missing := missingCapabilities(); len(missing) > 0 {
		return &LayerError{
			Layer: LayerUID, Why: "the supervisor may not become another user, it lacks " + strings.Join(missing, ", "),
			Fix: "run it as root or with these capabilities, or switch the layer off",
		}
	}
	if err := s.tryChown(who); err != nil {
		return err
	}
	reach := []string{"x" + filepath.Dir(s.c.RootDir)}
	for _, dir := range s.grants() {
		if !inside(dir, s.c.RootDir) {
			reach = append(reach, "w"+dir)
		}
	}
	for _, what := range reach {
		if err := tryAs(who, what[:1], what[1:]); err != nil {
			return err
		}
	}
	return nil
}

// MayChangeUser reports whether the supervisor can run agents as another user.
func MayChangeUser() bool { return len(missingCapabilities()) == 0 }

// tryChown gives a file of the state folder away: some file systems refuse that even to root.
func (s *Sandbox) tryChown(who person) error {
	file, err := os.CreateTemp(s.c.StateDir, ".owner-*")
	if err != nil {
		return fmt.Errorf("try ownership: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := errors.Join(file.Chown(who.uid, who.gid), file.Close()); err != nil {
		return &LayerError{
			Layer: LayerUID, Why: fmt.Sprintf("files in %s cannot be given to user %d: %v", s.c.StateDir, who.uid, err),
			Fix: "put the state folder on a local file system, or switch the layer off",
		}
	}
	return nil
}

// runTrial runs a program to its end, which comes soon: its result is kept for later callers, so none of them may cut it short.
func runTrial(cmd *exec.Cmd) error {
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	late := time.AfterFunc(trialTime, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	return cmd.Wait()
}

// tryAs becomes the user and looks whether a folder can be entered ("x") or written to ("w").
func tryAs(who person, right, dir string) error {
	cmd := exec.Command("/bin/sh", "-c", `test -x "$1" && test -"$2" "$1"`, "sh", dir, right) //nolint:noctx // runTrial ends it
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	err := runTrial(cmd)
	var failed *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed) && right == "w":
		return &LayerError{
			Layer: LayerUID, Why: fmt.Sprintf("user %d cannot write to %s", who.uid, dir),
			Fix: fmt.Sprintf("run chown %d %s, and let the user enter the folders above it", who.uid, dir),
		}
	case errors.As(err, &failed):
		return &LayerError{
			Layer: LayerUID, Why: fmt.Sprintf("user %d cannot enter %s, where the state folder lies", who.uid, dir),
			Fix: fmt.Sprintf("run chmod a+x on %s and the folders above it, or move the state folder", dir),
		}
	}
	return &LayerError{
		Layer: LayerUID, Why: fmt.Sprintf("no process could be started as user %d: %v", who.uid, err),
		Fix: "run the supervisor as root, or switch the layer off",
	}
}

func (s *Sandbox) findBwrap() (string, error) {
	if len(s.c.Relay) == 0 {
		return "", &LayerError{Layer: LayerBubblewrap, Why: "no program is named that passes signals into the sandbox", Fix: "set the relay"}
	}
	path, err := exec.LookPath(s.c.Bwrap)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return "", &LayerError{
			Layer: LayerBubblewrap, Why: fmt.Sprintf("the program %s was not found or cannot be run", s.c.Bwrap),
			Fix: "install it (apt-get install bubblewrap)",
		}
	}
	return path, nil
}

// try runs true in the sandbox, the same way an agent would be. It has its own time limit: its result is kept for later callers.
func (s *Sandbox) try(who *person, bwrap string, args []string, program ...string) error {
	if len(program) == 0 {
		program = []string{"true"}
	}
	args = slices.Concat([]string{bwrap}, args, []string{"--"}, program)
	cmd := exec.Command(s.c.Relay[0], append(append([]string{}, s.c.Relay[1:]...), args...)...) //nolint:gosec,noctx // runTrial ends it
	cmd.Env, cmd.Dir = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, "/"
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if who != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who.credential()}
	}
	if err := runTrial(cmd); err != nil {
		why := strings.TrimSpace(stderr.String())
		if why == "" {
			why = err.Error()
		}
		return &LayerError{
			Layer: LayerBubblewrap, Why: "a trial failed: " + why,
			Fix: namespacesFix(),
		}
	}
	return nil
}

// namespacesFix says how bubblewrap gets the namespaces that it needs.
func namespacesFix() string {
	if InContainer() {
		return "start the container with --security-opt seccomp=unconfined, or with a seccomp profile that allows user namespaces, and where " +
			"AppArmor is on also with --security-opt apparmor=unconfined"
	}
	return "allow it user namespaces (sysctl kernel.unprivileged_userns_clone=1, on Ubuntu an AppArmor profile for bwrap)"
}

// InContainer reports whether this program runs in a container of Docker or Podman.
func InContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}
