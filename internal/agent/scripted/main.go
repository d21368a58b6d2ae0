package scripted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

const (
	programName = "scripted"
	versionLine = "scripted 1.0 (Claude Ops scripted agent)"
)

// Main runs the scripted agent as a program and returns its exit code. An interrupt ends the running command; then the
// program ends as the real one does: with an error result inside a tool call, silently with code 0 elsewhere.
func Main(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args)
	if err != nil {
		return complain(stderr, err)
	}
	if opts.version {
		if _, err := fmt.Fprintln(stdout, versionLine); err != nil {
			return complain(stderr, err)
		}
		return 0
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()

	c, script, err := open(opts, environ, stdin, stream{stdout})
	if err != nil {
		return complain(stderr, err)
	}
	code, err := c.run(ctx, script, stderr)
	if err = errors.Join(err, c.kept.close()); err != nil {
		return complain(stderr, err)
	}
	return code
}

func complain(stderr io.Writer, err error) int {
	// If this fails too, the error cannot be reported.
	_, _ = fmt.Fprintf(stderr, "error: %v\n", err)
	return 1
}

// open prepares the conversation that a command line asks for. The stream is not touched, except to say that the
// conversation to be resumed is not there.
func open(opts options, env environment, stdin io.Reader, out stream) (*conversation, Script, error) {
	script, err := chooseScript(opts, env)
	if err != nil {
		return nil, Script{}, err
	}
	c := &conversation{opts: opts, env: env, stream: out, started: time.Now(), cost: script.CostUSD}
	if c.cwd, err = os.Getwd(); err != nil {
		return nil, Script{}, fmt.Errorf("find working folder: %w", err)
	}
	if c.pace, err = env.pace(); err != nil {
		return nil, Script{}, err
	}
	c.model = cmp.Or(script.Model, opts.model, programName)
	prompt, err := readPrompt(opts, stdin)
	if err != nil {
		return nil, Script{}, err
	}
	history, err := c.openTranscript()
	if errors.Is(err, errNoConversation) {
		text := "No conversation found with session ID: " + opts.resume
		return nil, Script{}, errors.Join(errors.New(text), c.failed("", text))
	}
	if err != nil {
		return nil, Script{}, err
	}
	if err := c.begin(prompt, history); err != nil {
		return nil, Script{}, errors.Join(err, c.kept.close())
	}
	return c, script, nil
}

func chooseScript(opts options, env environment) (Script, error) {
	scenario, err := load(opts.scenario)
	if err != nil {
		return Script{}, err
	}
	script, name, err := scenario.choose(env)
	if err != nil {
		return Script{}, fmt.Errorf("play scenario %s: %w", opts.scenario, err)
	}
	if len(script.Attempts) == 0 {
		return script, nil
	}
	return script.Attempts[min(scenario.attempt(env, name), len(script.Attempts))-1], nil
}

// attempt counts the runs of a script in its cycle, this one included. The numbers of the sessions cannot be used: several
// handlers and roles may share a script.
func (s Scenario) attempt(env environment, script string) int {
	n := 1
	for _, run := range env.earlier() {
		if _, name, err := s.choose(run); err == nil && name == script {
			n++
		}
	}
	return n
}

// choose finds the script of a session. Work is its handler's or its tier's; another role has its own, or that of its handler.
func (s Scenario) choose(env environment) (script Script, name string, err error) {
	tier, err := env.tier()
	if err != nil {
		return Script{}, "", err
	}
	handler, _ := env.lookup(envHandler)
	role, _ := env.lookup(envRole)
	byRole, isRole := s.Roles[ops.Role(role)]
	byHandler, isHandler := s.Handlers[handler]
	byTier, isTier := s.Tiers[tier]
	switch aside := role != "" && ops.Role(role) != ops.RoleWork; {
	case aside && isRole:
		return byRole, "role " + role, nil
	case isHandler:
		return byHandler, "handler " + handler, nil
	case aside:
		return Script{}, "", fmt.Errorf("it has neither a role %q nor a handler %q", role, handler)
	case !isTier:
		return Script{}, "", fmt.Errorf("it has no %s", tier)
	}
	return byTier, tier.String(), nil
}

func readPrompt(opts options, stdin io.Reader) (string, error) {
	if opts.prompt != "" {
		return opts.prompt, nil
	}
	data, err := io.ReadAll(stdin)
	if err != nil {
		return "", fmt.Errorf("read prompt from stdin: %w", err)
	}
	if strings.TrimSpace(string(data)) == "" {
		return "", errors.New("input must be provided either through stdin or as a prompt argument when using --print")
	}
	return string(data), nil
}

// openTranscript decides the id of the conversation and opens its file; it returns what was said before.
func (c *conversation) openTranscript() ([]record, error) {
	dir := c.env.projectDir(c.cwd)
	c.sessionID = cmp.Or(c.opts.sessionID, uuid.NewString())
	var history []record
	var err error
	if c.opts.resume != "" {
		if history, err = readHistory(dir, c.opts.resume); err != nil {
			return nil, err
		}
		if !c.opts.fork {
			c.sessionID = c.opts.resume
			c.kept, err = continueTranscript(dir, c.sessionID, c.cwd, history)
			return history, err
		}
	}
	c.kept, err = createTranscript(dir, c.sessionID, c.cwd, history)
	return history, err
}

// run plays the script to its end, or to where it was broken off, and returns the exit code.
func (c *conversation) run(ctx context.Context, script Script, stderr io.Writer) (int, error) {
	end, err := c.playAll(ctx, script.Steps)
	if end == nil {
		end = &script.Ending
	}
	if err == nil && c.opts.budget > 0 && c.cost > c.opts.budget {
		// As with the real program, what would have been the answer is lost.
		return 1, c.result(resultEvent{
			Subtype: subtypeBudget, IsError: true, TerminalReason: reasonBudget,
			Errors: []string{fmt.Sprintf("Reached maximum budget ($%v)", c.opts.budget)},
		})
	}
	if err == nil {
		err = c.end(ctx, *end, stderr)
	}
	switch {
	case err == nil:
		return end.Code(), nil
	case errors.Is(err, errInterruptedTool):
		return 1, c.failed(reasonAbortedTools, "Request was aborted")
	case errors.Is(err, errInterrupted):
		return 0, nil
	default:
		return 1, errors.Join(err, c.failed("", err.Error()))
	}
}
