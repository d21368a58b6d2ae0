package act

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
)

// prepareCompose makes a container again from the committed compose file. The engine is reached through a broker, which lets the
// new container have no more power than the one it replaces.
func (r *Runner) prepareCompose(ctx context.Context, env ops.Environment, spec ops.ActionSpec, t *task) error {
	folder, err := r.checkedOut(ctx, env, spec.Compose.Repo, t)
	if err != nil {
		return err
	}
	if err := regular(folder, spec.Compose.File); err != nil {
		return err
	}
	argv, err := r.composeProgram(ctx, env)
	if err != nil {
		return err
	}
	c := spec.Compose
	file := filepath.Join(folder, c.File)
	argv = append(argv, "-f", file)
	if t.pin != "" {
		over, err := r.override(env, file, c, t.pin)
		if err != nil {
			return err
		}
		argv = append(argv, "-f", over)
	}
	if c.ProjectDir != "" {
		argv = append(argv, "--project-directory", c.ProjectDir)
	}
	if c.Project != "" {
		argv = append(argv, "-p", c.Project)
	}
	if c.EnvFile != "" {
		argv = append(argv, "--env-file", c.EnvFile)
	}
	argv = append(argv, "up", "-d", "--no-deps", "--no-build")
	if spec.Kind == ops.ActionRedeploy {
		argv = append(argv, "--force-recreate")
	}
	argv = append(argv, c.Service)
	engine := r.o.Docker(env)
	if engine == "" {
		return refuse(ruleInput, "Set docker.socket.", "There is no Docker engine to ask.")
	}
	lose := t.lose
	if lose == nil {
		if lose, err = losses(ctx, spec, engine, t.accepted); err != nil {
			return err
		}
	}
	note := "commit " + abbreviated(t.commit) + "\n"
	t.perform = func(ctx context.Context, key string) (string, error) {
		brokered, err := r.openBroker(ctx, spec, engine, lose)
		if err != nil {
			return note, err
		}
		environ := append(r.environ(key), brokered.Env()...)
		out, err := execute(ctx, command{argv: argv, env: environ, dir: filepath.Dir(file)})
		_ = brokered.Close() // its folder is swept at the next start otherwise
		if err != nil {
			out += r.restored(ctx, engine, t.before)
		}
		return note + out, err
	}
	return nil
}

// restored brings the old container back after a failed replacement, and says so.
func (r *Runner) restored(ctx context.Context, socket string, was container) string {
	if was.ID == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
	defer cancel()
	switch had, err := newEngine(socket).restore(ctx, was); {
	case err != nil:
		return fmt.Sprintf("\nThe old container could not be brought back: %v\n", err)
	case had:
		return "\nThe old container was brought back.\n"
	}
	return ""
}

// openBroker opens a socket on which only this service can be replaced.
func (r *Runner) openBroker(ctx context.Context, spec ops.ActionSpec, engine string, lose []string) (*broker.Session, error) {
	if err := os.MkdirAll(r.o.Gates, 0o700); err != nil {
		return nil, fmt.Errorf("make folder for sockets: %w", err)
	}
	b, err := broker.New(broker.Options{
		Engine: engine, Dir: r.o.Gates, Ledger: granted{}, Redact: r.o.Redact, Clock: r.o.Clock, Logger: r.o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return b.Open(ctx, broker.Scope{
		Session: ops.Session{Tier: ops.LastTier}, Services: func() []broker.Service { return []broker.Service{composed(spec)} }, Lose: lose,
	})
}

// composed is the service of a compose file as its containers show it.
func composed(spec ops.ActionSpec) broker.Service {
	service := broker.Service{Name: spec.Service, Names: []string{spec.Compose.Service}}
	if spec.Container != "" {
		service.Names = append(service.Names, spec.Container)
	}
	return service
}

// losses are the containers whose data outside of volumes may be lost, because a human approved a step whose reason says so. What would be
// lost without that is refused before anything is done; whether an apply replaces a container is for the broker to see.
func losses(ctx context.Context, spec ops.ActionSpec, engine, accepted string) ([]string, error) {
	layers, err := broker.Layers(ctx, engine, composed(spec))
	if err != nil {
		layers = nil // the broker looks again at whatever is replaced, and keeps what it cannot see
	}
	var lose []string
	for _, l := range layers {
		switch {
		case !l.Holds():
		case strings.Contains(accepted, l.Loss()):
			lose = append(lose, l.ID)
		case spec.Kind == ops.ActionRedeploy:
			return nil, refuse(ruleLayer, "Propose it in the plan of your handoff, with a reason that says: "+l.Loss()+
				"; a human approves or denies it. A person can move the data to a volume first.",
				"Nothing was done: %s. A replacement loses it.", l)
		}
	}
	return lose, nil
}

// granted is the ledger of a broker whose change is recorded and reserved already.
type granted struct{}

// Reserve grants what the broker allows.
func (granted) Reserve(_ context.Context, r ops.GuardRecord, _ []ops.Reservation) (ops.GuardRecord, error) {
	return r, nil
}

// composeProgram is the compose of this machine: the plugin of docker, or the program of its own.
func (r *Runner) composeProgram(ctx context.Context, env ops.Environment) ([]string, error) {
	if argv, err := r.program(env, []string{"docker", "compose"}); err == nil {
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		if _, err := execute(ctx, command{argv: append(argv, "version"), env: r.environ("")}); err == nil {
			return argv, nil
		}
	}
	return r.program(env, []string{"docker-compose"})
}

func (r *Runner) preparePlaybook(ctx context.Context, env ops.Environment, spec ops.ActionSpec, t *task) error {
	folder, err := r.checkedOut(ctx, env, spec.Repo, t)
	if err != nil {
		return err
	}
	words := []string{"ansible-playbook"}
	if spec.Inventory != "" {
		if err := regular(folder, spec.Inventory); err != nil {
			return err
		}
		words = append(words, "-i", filepath.Join(folder, spec.Inventory))
	}
	if err := regular(folder, spec.Playbook); err != nil {
		return err
	}
	argv, err := r.program(env, append(words, filepath.Join(folder, spec.Playbook)))
	if err != nil {
		return err
	}
	note := "commit " + abbreviated(t.commit) + "\n"
	t.perform = func(ctx context.Context, key string) (string, error) {
		out, err := execute(ctx, command{argv: argv, env: append(r.environ(key), "ANSIBLE_NOCOLOR=1"), dir: folder})
		return note + out, err
	}
	return nil
}

// checkedOut is a folder with the files of the newest commit that no agent made.
func (r *Runner) checkedOut(ctx context.Context, env ops.Environment, name string, t *task) (string, error) {
	if env.ReposDir == "" {
		return "", refuse(ruleInput, "Set repos_dir.", "There are no repositories.")
	}
	repo := filepath.Join(env.ReposDir, name)
	commit, _, err := r.o.Commits.trusted(ctx, repo)
	if err != nil {
		return "", err
	}
	folder, remove, err := r.o.Commits.checkout(ctx, repo, commit)
	if err != nil {
		return "", refuse(ruleInput, "Report it for a human.", "The repository %s cannot be checked out: %v.", name, err)
	}
	t.commit = commit
	t.cleanup = append(t.cleanup, remove)
	return folder, nil
}

// preparePush pushes a branch from the supervisor's own repository, which has neither hooks nor settings of the clone. It never
// forces.
func (r *Runner) preparePush(ctx context.Context, env ops.Environment, spec ops.ActionSpec, branch string, t *task) error {
	if env.ReposDir == "" {
		return refuse(ruleInput, "Set repos_dir.", "There are no repositories.")
	}
	repo := filepath.Join(env.ReposDir, spec.Repo)
	kept := "refs/claudeops/push/" + branch
	if err := r.o.Commits.fetch(ctx, repo, "refs/heads/"+branch, kept); err != nil {
		return refuse(ruleInput, "Commit to the branch first.", "The branch %s of %s cannot be read: %v.", branch, spec.Repo, err)
	}
	dir, err := r.o.Commits.mirror(ctx, repo)
	if err != nil {
		return err
	}
	out, err := r.o.Commits.git(ctx, dir, "rev-parse", "--verify", "--quiet", kept)
	if err != nil {
		return err
	}
	t.commit = strings.TrimSpace(string(out))
	argv, err := r.program(env, []string{
		"git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "protocol.ext.allow=never",
		"push", "--no-verify", "--porcelain", "--", spec.Remote, t.commit + ":refs/heads/" + branch,
	})
	if err != nil {
		return err
	}
	t.perform = func(ctx context.Context, key string) (string, error) {
		environ := append(r.environ(key), "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1")
		return execute(ctx, command{argv: argv, env: environ, dir: dir})
	}
	return nil
}
