package act

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"claudeops/internal/guard/broker"
	"claudeops/internal/ops"
)

// prepareCompose makes a container again from the committed compose file.
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
	engine := r.o.Docker
	if engine == "" {
		return refuse(ruleInput, "Set docker.socket.", "There is no Docker engine to ask.")
	}
	if !t.lose {
		if err := losses(ctx, spec, engine, t.accepted); err != nil {
			return err
		}
	}
	note := "commit " + abbreviated(t.commit) + "\n"
	t.perform = func(ctx context.Context, key string) (string, error) {
		environ := append(r.environ(key), "DOCKER_HOST=unix://"+engine)
		out, err := execute(ctx, command{argv: argv, env: environ, dir: filepath.Dir(file)})
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

// composed is the service of a compose file as its containers show it.
func composed(spec ops.ActionSpec) broker.Service {
	service := broker.Service{Name: spec.Service, Names: []string{spec.Compose.Service}}
	if spec.Container != "" {
		service.Names = append(service.Names, spec.Container)
	}
	return service
}

// losses refuses to replace a container that holds data outside of its volumes, unless a human approved a step whose reason says so.
func losses(ctx context.Context, spec ops.ActionSpec, engine, accepted string) error {
	layers, err := broker.Layers(ctx, engine, composed(spec))
	if err != nil {
		return refuse(ruleInput, "Report it for a human.", "What the containers of %s hold outside of their volumes cannot be seen: %v.",
			spec.Service, err)
	}
	for _, l := range layers {
		if l.Holds() && !strings.Contains(accepted, l.Loss()) {
			return refuse(ruleLayer, "Propose it in the plan of your handoff, with a reason that says: "+l.Loss()+
				"; a human approves or denies it. A person can move the data to a volume first.",
				"Nothing was done: %s. A replacement loses it.", l)
		}
	}
	return nil
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

// checkedOut is a folder with the files of the newest commit that no agent made.
func (r *Runner) checkedOut(ctx context.Context, env ops.Environment, name string, t *task) (string, error) {
	if env.ReposDir == "" {
		return "", refuse(ruleInput, "Set repos_dir.", "There are no repositories.")
	}
	repo := r.o.Commits.clone(env, name)
	commit, err := r.o.Commits.trusted(ctx, repo)
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
func (r *Runner) preparePush(ctx context.Context, q Request, spec ops.ActionSpec, t *task) error {
	env, branch := q.Environment, q.Branch
	if env.ReposDir == "" {
		return refuse(ruleInput, "Set repos_dir.", "There are no repositories.")
	}
	repo := r.o.Commits.clone(env, spec.Repo)
	if q.Session != nil {
		if err := r.o.Commits.bringNow(ctx, q.Session.Key, repo); err != nil {
			return err
		}
	}
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
	if err := r.o.Commits.sendable(ctx, repo, t.commit); err != nil {
		return err
	}
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
