package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

// program is a contender that is an executable of somebody else's. It reads questions from its standard input and answers each with one
// line on its standard output; README.md has the protocol and example/contender a whole one.
type program struct {
	path string

	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // closed when it has ended
	log   bytes.Buffer
	late  bool // it did not answer in time, so it is not asked again
}

// question is what a program is asked.
type question struct {
	Do string `json:"do"` // start, wait, stop

	// With start: what the operator knows about the machine, as in claudeops.yaml, and nothing of what is about to break.
	Services []object  `json:"services,omitempty"`
	Rules    []any     `json:"rules,omitempty"`
	Notes    string    `json:"notes,omitempty"`
	MaxTier  int       `json:"max_tier,omitempty"`
	Agent    string    `json:"agent,omitempty"`         // the CLI that the model stands behind: claude or codex
	People   string    `json:"people,omitempty"`        // where a JSON object with title and body reaches a person
	Limit    float64   `json:"limit_seconds,omitempty"` // until wait has to be answered
	Broken   time.Time `json:"broken,omitzero"`         // with wait
	Watch    float64   `json:"watch_seconds,omitempty"` // with wait: nothing has happened if nothing was seen for so long
}

// answer is what it answers.
type answer struct {
	Error string   `json:"error"`
	Claim Claim    `json:"claim"` // to stop
	News  []string `json:"news"`  // to stop: titles of messages that asked a person for nothing
}

// Start starts the program and lets it begin to watch.
func (c *program) Start(ctx context.Context, p *pair) error {
	services, err := withDefaults(p.fault.Services)
	if err != nil {
		return err
	}
	rules, err := plainValues(p.fault.Rules)
	if err != nil {
		return err
	}
	c.cmd = exec.Command(c.path) //nolint:noctx // Stop ends it
	c.cmd.Dir, c.cmd.Stderr, c.cmd.WaitDelay = "/", &c.log, time.Second
	c.cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "ANTHROPIC_BASE_URL=" + p.claude.URL(), "ANTHROPIC_API_KEY=no-key-is-needed-here",
		"OPENAI_BASE_URL=" + p.codex.URL(), "OPENAI_API_KEY=no-key-is-needed-here-either",
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		c.in, err = c.cmd.StdinPipe()
	}
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		return err
	}
	c.lines = make(chan []byte)
	go func() {
		defer close(c.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			c.lines <- slices.Clone(scanner.Bytes())
		}
		_ = c.cmd.Wait()
	}()
	agent := "claude"
	if p.usesCodex() {
		agent = "codex"
	}
	_, err = c.ask(ctx, question{
		Do: "start", Services: services, Rules: rules, Notes: p.fault.Notes, MaxTier: p.fault.MaxTier, Agent: agent, People: p.people.server.URL,
		Limit: p.stretch(contendLimit).Seconds(),
	})
	return err
}

func plainValues(nodes []yaml.Node) (values []any, err error) {
	for _, n := range nodes {
		var value any
		err = errors.Join(err, n.Decode(&value))
		values = append(values, value)
	}
	return values, err
}

// ask asks one question and waits for its answer.
func (c *program) ask(ctx context.Context, q question) (a answer, err error) {
	_ = json.NewEncoder(c.in).Encode(q) // one that has ended cannot be asked, and its lines say so
	select {
	case line, alive := <-c.lines:
		if !alive {
			return a, fmt.Errorf("%s ended instead of an answer to %s: %s", c.path, q.Do, tail(c.log.Bytes(), 2000))
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return a, fmt.Errorf("read the answer of %s to %s: %w: %s", c.path, q.Do, err, line)
		}
		if a.Error != "" {
			return a, fmt.Errorf("%s cannot %s: %s", c.path, q.Do, a.Error)
		}
		return a, nil
	case <-ctx.Done():
		c.late = true
		return a, ctx.Err()
	}
}

// Wait asks it to look after the machine until nothing is left to do.
func (c *program) Wait(ctx context.Context, p *pair) error {
	_, err := c.ask(ctx, question{Do: "wait", Broken: p.broken, Watch: time.Duration(p.fault.Watch).Seconds()})
	if c.late {
		return nil // what was reached until now counts
	}
	return err
}

// Stop asks what it claims and lets it end. What it has started and not ended is left behind.
func (c *program) Stop(p *pair) (Claim, error) {
	a := answer{Claim: Claim{End: endNone}}
	if c.lines == nil {
		return a.Claim, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var err error
	if !c.late {
		a, err = c.ask(ctx, question{Do: "stop"})
	}
	_ = c.in.Close()
	if c.late {
		_ = c.cmd.Process.Signal(syscall.SIGTERM)
	}
	for ended := false; !ended; {
		select {
		case _, more := <-c.lines:
			ended = !more
		case <-ctx.Done():
			err = errors.Join(err, fmt.Errorf("%s did not end", c.path))
			_ = c.cmd.Process.Kill()
			ctx = context.Background()
		}
	}
	if !slices.Contains([]string{endResolved, endHuman, endHealthy, endNone}, a.Claim.End) {
		err = errors.Join(err, fmt.Errorf("%s claims the end %q, not resolved, human, healthy or none", c.path, a.Claim.End))
	}
	// Whether somebody was called is what has arrived, whatever it claims.
	a.Claim.Told = p.people.since(p.broken, func(title string) bool { return slices.Contains(a.News, title) })
	a.Claim.Human = slices.ContainsFunc(a.Claim.Told, func(m Message) bool { return m.Call })
	if p.Keep {
		err = errors.Join(err, os.WriteFile(outFolder+"/contender.log", c.log.Bytes(), 0o600))
	}
	return a.Claim, err
}
