package act

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

// task is an action that is ready to run.
type task struct {
	image    string // of the container before
	before   container
	commit   string              // of the repository that is read
	accepted string              // the reason that a human approved, for a step of a plan
	pin      string              // the image to use instead of the one that the compose file names
	lose     bool                // what containers hold outside their volumes may be lost
	goal     []ops.ServiceHealth // the state that is waited for; nil: all services healthy
	perform  func(ctx context.Context, key string) (output string, err error)
	cleanup  []func()
}

func (t *task) run(ctx context.Context, run ops.ActionRun) (string, error) {
	return t.perform(ctx, Key(run))
}

func (t *task) clean() {
	for i := len(t.cleanup) - 1; i >= 0; i-- {
		t.cleanup[i]()
	}
}

// Key marks the processes of a run, so that they are found again. Another supervisor on this machine may have a run with the same
// number; the time keeps it from ending ours.
func Key(r ops.ActionRun) string { return fmt.Sprintf("action-%d-%d", r.ID, r.RequestedAt.UnixMicro()) }

// prepare makes an action ready, and refuses one that cannot work. Nothing is changed.
func (r *Runner) prepare(ctx context.Context, q Request, spec ops.ActionSpec) (*task, error) {
	t := &task{}
	if q.Plan != nil {
		t.accepted = q.Plan.Plan[q.Step-1].Reason
	}
	if err := r.prepareKind(ctx, q, spec, t); err != nil {
		t.clean()
		return nil, err
	}
	return t, nil
}

func (r *Runner) prepareKind(ctx context.Context, q Request, spec ops.ActionSpec, t *task) error {
	env := q.Environment
	if spec.Container != "" {
		if err := r.readImage(ctx, spec, t); err != nil {
			return err
		}
	}
	switch spec.Kind {
	case ops.ActionRestart, ops.ActionStart, ops.ActionStop:
		return r.prepareState(env, spec, spec.Kind, t)
	case ops.ActionCommand:
		return r.prepareCommand(ctx, env, spec, spec.Run, t)
	case ops.ActionRedeploy, ops.ActionApply:
		return r.prepareCompose(ctx, env, spec, t)
	case ops.ActionPush:
		return r.preparePush(ctx, q, spec, t)
	}
	return refuse(ruleUnknown, "", "Actions of the kind %q cannot be run.", spec.Kind)
}

// prepareUndo makes the way back of a run ready. Images are those of the time before the run.
func (r *Runner) prepareUndo(ctx context.Context, env ops.Environment, spec ops.ActionSpec, run ops.ActionRun) (*task, error) {
	t := &task{image: run.Version}
	var err error
	switch {
	case spec.Kind == ops.ActionStart:
		err = r.prepareState(env, spec, ops.ActionStop, t)
	case spec.Kind == ops.ActionStop:
		err = r.prepareState(env, spec, ops.ActionStart, t)
	case len(spec.Undo) > 0:
		err = r.prepareCommand(ctx, env, spec, spec.Undo, t)
	default:
		err = refuse(ruleUnknown, "", "%s of %s has no way back.", spec.Name, spec.Service)
	}
	if err != nil {
		t.clean()
		return nil, err
	}
	return t, nil
}

// readImage notes what the container runs now, for a later way back.
func (r *Runner) readImage(ctx context.Context, spec ops.ActionSpec, t *task) error {
	must := spec.Kind == ops.ActionRestart || spec.Kind == ops.ActionStop || spec.Kind == ops.ActionStart
	socket := r.o.Docker
	if socket == "" {
		if must {
			return refuse(ruleInput, "Set docker.socket.", "There is no Docker engine to ask.")
		}
		return nil
	}
	found, err := newEngine(socket).inspect(ctx, spec.Container)
	switch {
	case err != nil && must:
		return refuse(ruleInput, "Look at the container first.", "The container %s cannot be changed: %v.", spec.Container, err)
	case err == nil:
		t.image, t.before = found.Config.Image, found
	}
	return nil
}

func (r *Runner) prepareState(env ops.Environment, spec ops.ActionSpec, verb ops.ActionKind, t *task) error {
	if spec.Unit != "" {
		argv, err := r.program(env, []string{r.o.Systemctl, "--no-ask-password", string(verb), "--", spec.Unit})
		if err != nil {
			return err
		}
		t.perform = func(ctx context.Context, key string) (string, error) {
			return execute(ctx, command{argv: argv, env: r.environ(key), stop: r.o.Stop})
		}
		return nil
	}
	engine := newEngine(r.o.Docker)
	t.perform = func(ctx context.Context, _ string) (string, error) { return engine.change(ctx, spec.Container, verb) }
	return nil
}

// prepareCommand makes a program of the operator ready. With a repository it works in the files of the newest trusted commit.
func (r *Runner) prepareCommand(ctx context.Context, env ops.Environment, spec ops.ActionSpec, words []string, t *task) error {
	words, err := r.fill(ctx, env, spec, words, t.image)
	if err != nil {
		return err
	}
	folder, note := "", ""
	if spec.Repo != "" {
		if folder, err = r.checkedOut(ctx, env, spec.Repo, t); err != nil {
			return err
		}
		note = "commit " + abbreviated(t.commit) + "\n"
		if name := words[0]; strings.Contains(name, "/") && !filepath.IsAbs(name) {
			if err := regular(folder, name); err != nil {
				return err
			}
			words[0] = filepath.Join(folder, name)
		}
	}
	argv, err := r.program(env, words)
	if err != nil {
		return err
	}
	t.perform = func(ctx context.Context, key string) (string, error) {
		out, err := execute(ctx, command{argv: argv, env: r.environ(key), dir: folder, stop: r.o.Stop})
		return note + out, err
	}
	return nil
}

// fill replaces the names in an operator's words.
func (r *Runner) fill(ctx context.Context, env ops.Environment, spec ops.ActionSpec, words []string, image string) ([]string, error) {
	text := strings.Join(words, "\x00")
	previous := ""
	if strings.Contains(text, "{{previous}}") {
		var err error
		if previous, err = r.o.Ledger.LastVersion(ctx, env.Name, spec.Service, image); err != nil {
			return nil, err
		}
		if previous == "" {
			return nil, refuse(ruleInput, "A human has to name it.", "No earlier image of %s is known.", spec.Service)
		}
	}
	if strings.Contains(text, "{{current}}") && image == "" {
		return nil, refuse(ruleInput, "Look at the container first.", "The image of %s is not known.", spec.Service)
	}
	values := strings.NewReplacer("{{service}}", spec.Service, "{{current}}", image, "{{previous}}", previous)
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = values.Replace(w); out[i] != w && strings.HasPrefix(out[i], "-") && !strings.HasPrefix(w, "-") {
			return nil, refuse(ruleInput, "", "%q looks like an option.", short(out[i]))
		}
	}
	return out, nil
}

// program finds the program of an argv, and refuses one that an agent could have written.
func (r *Runner) program(env ops.Environment, argv []string) ([]string, error) {
	path, err := findProgram(argv[0], variable(r.o.Environ, "PATH"))
	if err != nil {
		return nil, refuse(ruleInput, "Correct the configuration.", "%v.", err)
	}
	found, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, refuse(ruleInput, "Correct the configuration.", "The program %s cannot be found: %v.", argv[0], err)
	}
	for _, dir := range r.writable(env) {
		if inside(found, dir) || inside(path, dir) {
			return nil, refuse(ruleInput, "Move it to another folder.", "The program %s is in %s, where agents write.", argv[0], dir)
		}
	}
	info, err := os.Stat(found)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o002 != 0 {
		return nil, refuse(ruleInput, "Correct its permissions.", "The program %s is not a file that only its owner may change.", argv[0])
	}
	return append([]string{path}, argv[1:]...), nil
}

// writable are the folders in which agents can write.
func (r *Runner) writable(env ops.Environment) []string {
	out := []string{env.WorkDir, filepath.Join(env.StateDir, "agent")}
	if env.ReposDir != "" {
		out = append(out, env.ReposDir)
	}
	for i, dir := range out {
		if found, err := filepath.EvalSymlinks(dir); err == nil {
			out[i] = found
		}
	}
	return slices.DeleteFunc(out, func(dir string) bool { return dir == "" })
}

func inside(path, folder string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func findProgram(name, searched string) (string, error) {
	if searched == "" {
		searched = standardPath
	}
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, dir := range filepath.SplitList(searched) {
			if filepath.IsAbs(dir) {
				candidates = append(candidates, filepath.Join(dir, name))
			}
		}
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && filepath.IsAbs(path) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %s is not installed", name)
}

// environ is the environment of a program: nothing of it comes from an agent.
func (r *Runner) environ(key string) []string {
	out := []string{"LANG=C.UTF-8", "CLAUDEOPS_SESSION_KEY=" + key}
	path := variable(r.o.Environ, "PATH")
	if path == "" {
		path = standardPath
	}
	out = append(out, "PATH="+path)
	for _, name := range []string{"HOME", "TZ", "USER", "LOGNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
		if v := variable(r.o.Environ, name); v != "" {
			out = append(out, name+"="+v)
		}
	}
	return out
}

func variable(environ []string, name string) string {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			return v
		}
	}
	return ""
}

const (
	// maxOutput is how much of the output is kept: its end.
	maxOutput = 32 << 10
	// stopTime is how long a program may take to end after it was told to.
	stopTime = 5 * time.Second
)

// command is a program that is run without a shell.
type command struct {
	argv []string
	env  []string
	dir  string
	stop time.Duration // how long it may take to end after it was told to; 0: stopTime

	input  io.Reader
	output io.Writer           // gets what it prints; nil: that is returned with its complaints
	as     *syscall.Credential // nil: as ourselves
}

// execute runs a program in its own process group and ends the whole group when ctx ends.
func execute(ctx context.Context, c command) (string, error) {
	var out tail
	cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.env, cmp.Or(c.dir, "/"), c.input, &out, &out
	if c.output != nil {
		cmd.Stdout = c.output
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: c.as}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(c.stop, stopTime)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	err := cmd.Wait()
	// What the program left behind ends too.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s ended with %s", c.argv[0], exit.ProcessState)
	}
	return out.String(), err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - maxOutput; over > 0 {
		t.text, t.cut = append([]byte(nil), t.text[over:]...), true
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(string(t.text), "\uFFFD")
	if t.cut {
		return "…" + text
	}
	return text
}
