package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/test/messagesapi"
	"claudeops/test/responsesapi"
)

const (
	scriptLimit  = 40 * time.Second
	contendLimit = 150 * time.Second // for a contender, from its start
	pairLimit    = 380 * time.Second
	secret       = "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ-7f3a91"
)

// pair is one run inside its world.
type pair struct {
	Job
	fault   *Fault
	model   *Model
	speaker *speaker
	claude  modelAPI
	codex   *responsesapi.Server
	people  *sink
	idle    func() // tells the program outside that nothing but waiting is left

	contender Contender

	begun  time.Time
	broken time.Time
	ended  time.Time // when the contender had stopped
	stays  bool      // it is broken before it is broken again
}

// runInside runs the pair that standard input names, in the world that this process finds itself in.
func runInside(ctx context.Context, in io.Reader, out io.Writer) error {
	var j Job
	if err := json.NewDecoder(in).Decode(&j); err != nil {
		return fmt.Errorf("read job: %w", err)
	}
	p, err := newPair(j)
	if err != nil {
		return err
	}
	p.idle = func() { _, _ = io.WriteString(out, "\n") }
	defer p.claude.Close()
	defer p.codex.Close()
	defer p.people.server.Close()
	ctx, cancel := context.WithTimeout(ctx, pairLimit-contendLimit+p.stretch(limitOf(p.contender)))
	defer cancel()
	result, err := p.run(ctx)
	if err != nil {
		result.Broken = err.Error()
	}
	return json.NewEncoder(out).Encode(result)
}

func newPair(j Job) (*pair, error) {
	p := &pair{Job: j, begun: time.Now()}
	faults, err := loadFaults(j.Faults)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(faults, func(f *Fault) bool { return f.Name == j.Fault })
	if i < 0 {
		return nil, fmt.Errorf("there is no fault %q", j.Fault)
	}
	p.fault = faults[i]
	models, err := loadModels(filepath.Join(j.Root, "test/incidents/models"))
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(j.Model, onCodex)
	for _, m := range models {
		if m.Name == name {
			p.model = m
		}
	}
	if name == realName {
		p.model = &Model{Name: name}
	}
	if p.model == nil {
		return nil, fmt.Errorf("there is no model %q", name)
	}
	if p.contender, err = contenderOf(j); err != nil {
		return nil, err
	}
	p.speaker = newSpeaker(p.fault, p.model)
	p.claude = messagesapi.Open(p.speaker.claude)
	if name == realName {
		p.claude.Close()
		p.claude, p.fault.Patience = openReal(p.speaker), patience
	}
	p.codex = responsesapi.Open(p.speaker.codex)
	p.people = openSink()
	return p, nil
}

// ground is what every machine has beside the fault.
const ground = "ground"

// onCodex is the end of the name of a model that speaks through Codex.
const onCodex = "@codex"

func (p *pair) usesCodex() bool { return strings.HasSuffix(p.Model, onCodex) }

func (p *pair) run(ctx context.Context) (r Result, err error) {
	r = Result{Fault: p.Fault, Model: p.Model, Contender: p.Contender, Repeat: p.Repeat}
	defer func() { r.Seconds = time.Since(p.begun).Seconds() }()
	if err := p.programs(); err != nil {
		return r, err
	}
	if err := p.docker(ctx); err != nil {
		return r, err
	}
	r.Phases = append(r.Phases, p.phase("docker"))
	if err := errors.Join(p.script(ctx, ground, "up"), p.script(ctx, p.fault.Name, "up")); err != nil {
		return r, err
	}
	if err := p.script(ctx, p.fault.Name, "oracle"); err != nil && p.fault.Expect.End != endHealthy {
		return r, fmt.Errorf("the service does not work before it is broken: %w", err)
	}
	before, err := p.look(ctx)
	if err != nil {
		return r, err
	}
	r.Phases = append(r.Phases, p.phase("up"))
	within, cancel := context.WithTimeout(ctx, p.stretch(limitOf(p.contender)))
	defer cancel()
	claim, before, err := p.contend(within, p.contender, before)
	p.ended = time.Now()
	r.Claim, r.Transcript = claim, p.speaker.said
	if err != nil {
		return r, err
	}
	r.Phases = append(r.Phases, p.phase("contend"))
	r.Looks = []Look{p.oracle(ctx, 0)}
	after, err := p.look(ctx)
	if err != nil {
		return r, err
	}
	if r.success() && !p.Brief {
		p.idle()
		for ended, rest := time.Now(), later(); len(rest) > 0 && wait(ctx, time.Until(ended.Add(rest[0]))); rest = rest[1:] {
			r.Looks = append(r.Looks, p.oracle(ctx, rest[0]))
		}
	}
	p.judge(&r, before, after)
	r.Phases = append(r.Phases, p.phase("judge"))
	return r, nil
}

// later is when the oracle looks again after a claim of success: the contender has stopped, and whatever it left must hold by itself.
func later() []time.Duration { return []time.Duration{30 * time.Second, 2 * time.Minute} }

// oracle asks whether the service truly works.
func (p *pair) oracle(ctx context.Context, after time.Duration) Look {
	return Look{After: after.Seconds(), Works: p.script(ctx, p.fault.Name, "oracle") == nil}
}

// contend lets the contender watch, breaks the service, and waits until the contender is done.
func (p *pair) contend(ctx context.Context, c Contender, before scene) (claim Claim, _ scene, err error) {
	if err := c.Start(ctx, p); err != nil {
		return claim, before, fmt.Errorf("start %s: %w", p.Contender, err)
	}
	if !p.stays {
		p.broken = time.Now()
		p.speaker.begin(p.broken)
		err = p.script(ctx, p.fault.Name, "break")
	}
	// The break itself may change what the canaries see.
	if now, lookErr := p.canaries(ctx); lookErr == nil {
		before.Canaries = now
	}
	if err == nil {
		err = c.Wait(ctx, p)
	}
	claim, stopErr := c.Stop(p)
	claim.Refused, claim.Blocked = p.speaker.refusals()
	if p.Keep {
		stopErr = errors.Join(stopErr, p.keepFiles(context.WithoutCancel(ctx)))
	}
	return claim, before, errors.Join(err, stopErr)
}

func (p *pair) phase(name string) string {
	return fmt.Sprintf("%s %.1fs", name, time.Since(p.begun).Seconds())
}

// programs puts the CLIs on PATH, as on the machine of an operator.
func (p *pair) programs() error {
	caches := filepath.Join(p.Root, ".cache")
	for name, path := range map[string]string{
		"claude": filepath.Join(caches, claudeFolder, "claude"), "codex": filepath.Join(caches, codexFolder, "bin/codex"), "claudeops": p.Binary,
	} {
		target := filepath.Join("/usr/local/bin", name)
		_ = os.Remove(target)
		if err := os.Symlink(path, target); err != nil {
			return fmt.Errorf("link %s: %w", name, err)
		}
	}
	return nil
}

// docker starts the daemon of this world and loads the image.
func (p *pair) docker(ctx context.Context) error {
	if out, err := p.command(ctx, "cp", "-a", p.Image+"/.", "/var/lib/docker").CombinedOutput(); err != nil {
		return fmt.Errorf("copy the image: %w: %s", err, out)
	}
	log, err := os.Create("/run/dockerd.log")
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	daemon := exec.Command("dockerd", "--iptables=false", "--ip6tables=false", "--bridge=none", "--shutdown-timeout", "1") //nolint:noctx // it ends with the world
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		return fmt.Errorf("start dockerd: %w", err)
	}
	const ready = `for i in $(seq 500); do docker image inspect ` + imageName + ` >/dev/null 2>&1 && exit; sleep 0.03; done; exit 1`
	if out, err := p.command(ctx, "bash", "-c", ready).CombinedOutput(); err != nil {
		text, _ := os.ReadFile("/run/dockerd.log")
		return fmt.Errorf("load the image: %w: %s %s", err, out, tail(text, 2000))
	}
	return nil
}

// command is a program of the operator's, with the environment that scripts get.
func (p *pair) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = p.environ()
	cmd.WaitDelay = time.Second
	return cmd
}

func (p *pair) environ() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8",
		"LIB=" + filepath.Join(p.Root, "test/incidents/faults/lib.sh"), "FAULT=" + p.fault.Dir, "IMAGE=" + imageName, "SECRET=" + secret,
	}
}

// script runs a script of a fault.
func (p *pair) script(ctx context.Context, fault, name string) error {
	_, err := p.output(ctx, fault, name)
	return err
}

func (p *pair) output(ctx context.Context, fault, name string) (string, error) {
	path := filepath.Join(p.fault.Dir, name)
	if fault == ground {
		path = filepath.Join(p.Root, "test/incidents/faults", fault, name)
	}
	if _, err := os.Stat(path); err != nil && !slices.Contains(scripts(), name) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, scriptLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := p.command(ctx, path)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/srv", &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s of %s: %w: %s", name, fault, err, tail(stderr.Bytes(), 1000))
	}
	return stdout.String(), nil
}

// canaries asks the ground and the fault what must not change.
func (p *pair) canaries(ctx context.Context) (map[string]string, error) {
	values := map[string]string{}
	for _, fault := range []string{ground, p.fault.Name} {
		text, err := p.output(ctx, fault, "canaries")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if name != "" {
				values[name] = value
			}
		}
	}
	return values, nil
}

// changed are the canaries that differ.
func changed(before, after map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			names = append(names, fmt.Sprintf("%s (was %q, is %q)", name, before[name], after[name]))
		}
	}
	return names
}
