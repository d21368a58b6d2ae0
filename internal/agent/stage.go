package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/agent/process"
	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// A stage is everything of a session that can be made before the session is decided, while the one before it still runs: its folders,
// its control group, and its process, which has set up and proven its walls and waits to be told its program. A stage is no session: it
// is not journaled, and nothing of it can be reached by the session that runs.

const (
	// stageFolder holds the folders of a stage in the state folder of an environment, in one that has the key of the stage as its name,
	// so that a later supervisor finds what is left of it. No agent gets to see it.
	stageFolder  = "staged"
	cooldownName = "cooldown.json"
	// stageTime bounds how long a stage is made, and how long a session waits for one that is being made.
	stageTime = 10 * time.Second
)

// Stage is a process that waits behind the walls of a session.
type Stage struct {
	Program Program // the process; its standard input is a socket
	Place   string  // what the walls were made from
	Stamp   string  // which files they were made for
	Proven  string  // the line by which it reports that its walls hold
	// Tell names the program that it becomes.
	Tell func(conn, stdin *os.File, p Program) error
}

// equal reports whether a process that was started for one stage serves as well as one started for the other.
func (s Stage) equal(o Stage) bool {
	a, b := s.Program, o.Program
	return s.Place == o.Place && s.Stamp == o.Stamp && a.Path == b.Path && a.Dir == b.Dir && a.Limits == b.Limits &&
		reflect.DeepEqual([][]string{a.Argv, a.Env}, [][]string{b.Argv, b.Env}) && reflect.DeepEqual(a.Credential, b.Credential)
}

// Stager are walls that can be set up before the program of a session is known.
type Stager interface {
	// Stages reports whether they can, for a tier.
	Stages(tier ops.Tier) bool
	// Stage makes what is missing in the folder of the stage and describes the process that waits there.
	Stage(tier ops.Tier, p Program, folder string) (Stage, error)
	// Place describes what the walls of a program are made from.
	Place(tier ops.Tier, p Program) string
	// Staged returns the program as the process becomes it.
	Staged(tier ops.Tier, p Program) Program
}

// Outliner is an adapter that knows a part of a program before its session is decided: its path, its working folder and those
// variables that the walls depend on.
type Outliner interface {
	Outline(spec ops.SessionSpec, f Folders) (Program, error)
}

// stages are those of one runner, by the keys of their sessions.
type stages struct {
	mu    sync.Mutex
	byKey map[string]*staged
}

func (s *stages) add(key string, st *staged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = map[string]*staged{}
	}
	s.byKey[key] = st
}

func (s *stages) get(key string) *staged {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byKey[key]
}

func (s *stages) take(key string) *staged {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.byKey[key]
	delete(s.byKey, key)
	return st
}

// errUnstaged is why a stage that was removed cannot be used.
var errUnstaged = errors.New("it was removed")

// staged is a stage that was made.
type staged struct {
	key     string
	tier    ops.Tier
	folder  string
	outline Program
	walls   Stager
	stage   Stage
	conn    *os.File
	proc    *running
	release func()

	refresh sync.Once
	fresh   Stage
	err     error
}

// Stage makes the stage of a session that may follow. The spec holds what is known of it; the key is the one that it will get. An error
// only means that it will start in the usual way.
func (r *Runner) Stage(ctx context.Context, spec ops.SessionSpec) error {
	outliner, ok := r.Adapter.(Outliner)
	if !ok || r.o.Walls == nil {
		return nil
	}
	walls, ok := r.o.Walls(spec.Environment).(Stager)
	if !ok || !walls.Stages(spec.Session.May()) || !FileNameSafe(spec.Session.Key) {
		return nil
	}
	f, err := foldersOf(spec)
	if err != nil {
		return err
	}
	st := &staged{
		key: spec.Session.Key, tier: spec.Session.May(), folder: filepath.Join(f.State, stageFolder, spec.Session.Key),
		walls: walls, release: func() {},
	}
	if st.outline, err = outliner.Outline(spec, f); err != nil {
		return err
	}
	if err := st.makeFolders(f); err != nil {
		return errors.Join(fmt.Errorf("make folders of the next session: %w", err), st.removeFolders(r.o.Discards))
	}
	ctx, cancel := context.WithTimeout(ctx, stageTime)
	defer cancel()
	if err := r.startStage(ctx, st); err != nil {
		return errors.Join(fmt.Errorf("prepare next session: %w", err), st.remove(ctx, r.o.Discards))
	}
	r.stages.add(st.key, st)
	return nil
}

// makeFolders makes the folders of the stage.
func (st *staged) makeFolders(f Folders) error {
	dirs := []string{f.Agent, f.Home, f.Config}
	if f.ownsWork() {
		dirs = append(dirs, f.Work)
	}
	for _, dir := range dirs {
		rel, err := filepath.Rel(f.State, dir)
		if err == nil {
			err = os.MkdirAll(filepath.Join(st.folder, rel), 0o700)
		}
		if err != nil {
			return err
		}
	}
	// The mounts of the stage show this file; what is in it is written when the session starts.
	return os.WriteFile(filepath.Join(st.folder, cooldownName), nil, 0o600)
}

// startStage starts the process of a stage and waits until its walls are proven.
func (r *Runner) startStage(ctx context.Context, st *staged) error {
	var err error
	if st.stage, err = st.walls.Stage(st.tier, st.outline, st.folder); err != nil {
		return err
	}
	program := st.stage.Program
	program.Key, program.staged = st.key, true
	if k := r.o.Keeper; k != nil {
		program.register = func(group string) (func(process.Ident), error) { return k.Register(ctx, st.key, group) }
		st.release = func() { k.Release(st.key) }
	}
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := syscall.SetNonblock(fds[0], true); err != nil {
		return err
	}
	st.conn, program.Stdin = os.NewFile(uintptr(fds[0]), "stage"), os.NewFile(uintptr(fds[1]), "stage")
	if st.proc, err = start(program); err != nil {
		return err
	}
	return st.prove(ctx)
}

// prove waits for the report of the walls.
func (st *staged) prove(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = st.proc.stdout.file.SetReadDeadline(deadline)
		defer func() { _ = st.proc.stdout.file.SetReadDeadline(time.Time{}) }()
	}
	stop := context.AfterFunc(ctx, func() { _ = st.proc.stdout.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	var line bytes.Buffer
	one := make([]byte, 1)
	for line.Len() < maxSummary {
		n, err := st.proc.stdout.file.Read(one)
		if err != nil {
			return fmt.Errorf("its walls did not report: %w", err)
		}
		if n == 1 && one[0] == '\n' {
			break
		}
		line.Write(one[:n])
	}
	if line.String() != st.stage.Proven {
		return errors.New(strings.TrimSpace(line.String()))
	}
	st.proc.first = st.stage.Proven
	return nil
}

// again describes the stage as it would be made now, once.
func (st *staged) again() (Stage, error) {
	st.refresh.Do(func() { st.fresh, st.err = st.walls.Stage(st.tier, st.outline, st.folder) })
	return st.fresh, st.err
}

// Refresh looks again at what the walls of a stage were made from, so that its session need not wait for that.
func (r *Runner) Refresh(key string) {
	if st := r.stages.get(key); st != nil {
		_, _ = st.again() // the session asks for it
	}
}

// Unstage removes a stage that no session took.
func (r *Runner) Unstage(ctx context.Context, key string) error {
	st := r.stages.take(key)
	if st == nil {
		return nil
	}
	return st.remove(context.WithoutCancel(ctx), r.o.Discards)
}

// remove ends the process of a stage and removes its folders.
func (st *staged) remove(ctx context.Context, bin *Discards) error {
	st.refresh.Do(func() { st.err = errUnstaged }) // a look that is under way could make folders again
	return errors.Join(st.end(ctx), st.removeFolders(bin))
}

// end ends the process of a stage.
func (st *staged) end(ctx context.Context) error {
	if st.conn != nil {
		_ = st.conn.Close() // it ends by itself
	}
	defer st.release()
	if st.proc == nil {
		return nil
	}
	defer st.proc.close()
	if st.proc.group != nil {
		st.proc.group.Kill() // the whole chain at once
	}
	waitFor(st.proc.done, lastTime)
	_, err := st.proc.sweep(ctx)
	waitFor(st.proc.done, reapTime)
	st.proc.group.Remove() // nothing left it: no program of an agent ran there
	return err
}

func (st *staged) removeFolders(bin *Discards) error {
	return bin.discard(filepath.Dir(filepath.Dir(st.folder)), st.folder)
}

// usable reports whether the stage is still what would be made now.
func (st *staged) usable() bool {
	fresh, err := st.again()
	return err == nil && st.stage.equal(fresh) && !st.proc.ended()
}

// adopt puts the folders of a stage in the place of the session's. Those of the session before it are gone.
func (st *staged) adopt(f Folders) error {
	names := []string{f.Agent}
	if f.ownsWork() {
		names = append(names, f.Work)
	}
	for _, to := range names {
		rel, err := filepath.Rel(f.State, to)
		if err == nil {
			err = os.Rename(filepath.Join(st.folder, rel), to)
		}
		if err != nil {
			return err
		}
	}
	return st.adoptCooldowns(f)
}

// adoptCooldowns makes the file that the mounts of the stage show the snapshot of the cooldowns.
func (st *staged) adoptCooldowns(f Folders) error {
	to := filepath.Join(f.State, cooldownName)
	text, err := os.ReadFile(to)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	from := filepath.Join(st.folder, cooldownName)
	if err == nil {
		err = os.WriteFile(from, text, 0o600)
	}
	if err == nil {
		err = os.Rename(from, to)
	}
	return err
}

// become makes the process of the stage the program of its session.
func (st *staged) become(p Program) (*running, error) {
	stdin := p.Stdin
	if stdin == nil {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		stdin = null
	}
	defer func() { _ = stdin.Close() }()
	// The keeper knows the process; asked again it refuses a session that it could not end.
	started, err := p.kept(st.proc.group)
	if err != nil {
		return nil, err
	}
	started(st.proc.Ident)
	failpoint.Hit("spawn.before")
	if err := st.stage.Tell(st.conn, stdin, p); err != nil {
		return nil, err
	}
	failpoint.Hit("spawn.after")
	st.proc.proof = p.Proof
	return st.proc, nil
}

// sweepStages ends what is left of the stages of an earlier supervisor and removes their folders.
func sweepStages(ctx context.Context, stateDir string, bin *Discards) error {
	left, err := os.ReadDir(filepath.Join(stateDir, stageFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range left {
		if process.FileNameSafe(e.Name()) {
			_, sweeping := Sweep(ctx, e.Name())
			err = errors.Join(err, sweeping)
		}
	}
	return errors.Join(err, bin.discard(stateDir, filepath.Join(stateDir, stageFolder)))
}

// stageFor returns the stage of a session with its folders in place; nil where there is none that can be used.
func (r *Runner) stageFor(ctx context.Context, spec ops.SessionSpec, log *slog.Logger) *staged {
	st := r.stages.take(spec.Session.Key)
	if st == nil {
		return nil
	}
	f, err := foldersOf(spec)
	if err == nil && st.usable() {
		if err = f.discard(r.o.Discards); err == nil {
			err = st.adopt(f)
		}
		if err == nil {
			return st
		}
	}
	log.InfoContext(ctx, "what was prepared for the session is not used, because something changed", "error", err)
	st.drop(ctx, log, r.o.Discards)
	return nil
}

// drop removes a stage that is not used after all; its folders are the session's by now.
func (st *staged) drop(ctx context.Context, log *slog.Logger, bin *Discards) {
	if st == nil {
		return
	}
	if err := st.remove(context.WithoutCancel(ctx), bin); err != nil {
		log.WarnContext(ctx, "what was prepared for a session could not be removed", "error", err)
	}
}
