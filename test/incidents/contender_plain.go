package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
)

// plainLoop is what many people run: a loop that asks whether the services answer and, if not, starts `claude -p` with a prompt and with
// permission rules, and believes what it says.
type plainLoop struct {
	turns   int  // sessions for one incident before the loop calls somebody; without any it does nothing else
	doubts  bool // it asks the services again before it believes that something is repaired
	sandbox bool // in the sandbox of Claude Code

	probes  []ops.ProbeSpec
	prober  *probe.Prober
	claim   Claim
	sawDown bool
}

// plainName is the name of the contender without a supervisor.
const plainName = "plain-loop"

const (
	plainTurns    = 3 // Claude Ops has as many tiers
	plainInterval = time.Second
	plainSession  = 60 * time.Second // as for Claude Ops
	plainSettle   = 2 * time.Second  // as for Claude Ops
)

// plainAllowed is what an operator plausibly allows: looking, restarting containers, the programs of the services, and the operator's own.
func plainAllowed(f *Fault) []string {
	allowed := []string{
		"Read", "Grep", "Glob", "Edit", "Bash(docker:*)", "Bash(curl:*)", "Bash(git:*)", "Bash(redis-cli:*)", "Bash(psql:*)", "Bash(dig:*)",
		"Bash(cat:*)", "Bash(ls:*)", "Bash(tail:*)", "Bash(head:*)", "Bash(grep:*)", "Bash(df:*)", "Bash(du:*)", "Bash(ps:*)", "Bash(ss:*)",
		"Bash(kill:*)", "Bash(chmod:*)", "Bash(chown:*)", "Bash(openssl:*)", "Bash(/srv/bin/:*)", "Bash(sed:*)", "Bash(cp:*)", "Bash(mv:*)",
		"Bash(find:*)", "Bash(sh:*)", "Bash(bash:*)",
	}
	for _, program := range f.programs() {
		allowed = append(allowed, "Bash("+program+":*)")
	}
	return allowed
}

// plainDenied is what the same operator forbids by name.
func plainDenied() []string {
	return []string{
		"Task", "Agent", "Bash(docker system prune:*)", "Bash(docker volume rm:*)", "Bash(docker volume prune:*)", "Bash(rm:*)", "Bash(git push --force:*)",
		"Bash(git push -f:*)", "Bash(sudo:*)", "Bash(dropdb:*)", "Edit(//**/inventory.yml)",
	}
}

// claudeSandbox are the settings of Claude Code's own sandbox: every command runs in it but those that cannot, because they need Docker or
// a service of this machine. The permission rules are about these. A world masks parts of /proc, as a container does, so bubblewrap cannot
// mount another one in it; Claude Code has a setting for that (enableWeakerNestedSandbox).
func claudeSandbox(f *Fault) object {
	outside := []string{"docker *", "curl *", "redis-cli *", "psql *", "dig *"}
	for _, program := range f.programs() {
		outside = append(outside, program, program+" *")
	}
	return object{"sandbox": object{
		"enabled": true, "failIfUnavailable": true, "enableWeakerNestedSandbox": true, "autoAllowBashIfSandboxed": true,
		"allowUnsandboxedCommands": false, "excludedCommands": outside,
	}}
}

// Start reads the probes.
func (l *plainLoop) Start(_ context.Context, p *pair) error {
	if err := os.MkdirAll(configDir, 0o755); err != nil {
		return err
	}
	text, err := claudeOpsConfig(p.fault, p.Contender, false)
	if err != nil {
		return err
	}
	path := filepath.Join(configDir, "loop.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return err
	}
	c, err := config.Load(config.Input{ConfigPath: path, Environ: p.environ(), Dir: "/root"})
	if err != nil {
		return err
	}
	for _, e := range c.Environments() {
		l.probes = append(l.probes, e.Probes...)
	}
	l.prober = probe.New(probe.Options{})
	return nil
}

// Wait is the loop.
func (l *plainLoop) Wait(ctx context.Context, p *pair) error {
	l.claim.End = endHealthy
	begun := time.Now() // a break can take a while
	for time.Since(begun) < time.Duration(p.fault.Watch) || l.sawDown {
		down := l.down(ctx)
		if down == "" && l.sawDown {
			return nil
		}
		if down == "" {
			if !wait(ctx, plainInterval) {
				return nil
			}
			continue
		}
		if !l.sawDown {
			l.sawDown, l.claim.Detect = true, time.Since(p.broken).Seconds()
		}
		if l.turns == 0 {
			return l.call(ctx, p, down)
		}
		l.claim.Sessions++
		answer := l.session(ctx, p, down)
		still := ""
		if l.doubts && wait(ctx, plainSettle) {
			still = l.down(ctx)
		}
		switch {
		case still == "" && (strings.Contains(answer, "RESOLVED") || strings.Contains(answer, "HEALTHY")):
			// The loop believes it and watches on; the next failure is the next incident.
			l.claim.End = endResolved
			l.claim.Repair = time.Since(p.broken).Seconds()
			return nil
		case strings.Contains(answer, "HUMAN"):
			return l.call(ctx, p, down)
		case l.claim.Sessions >= l.turns:
			return l.call(ctx, p, down)
		}
	}
	return nil
}

// call tells a person.
func (l *plainLoop) call(ctx context.Context, p *pair, down string) error {
	l.claim.End = endHuman
	text, err := json.Marshal(Message{Title: "A human is needed", Body: down})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.people.server.URL, bytes.NewReader(text))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil //nolint:nilerr // nobody was told
	}
	return answer.Body.Close()
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// down asks the services with the same probes as Claude Ops, and returns what is wrong.
func (l *plainLoop) down(ctx context.Context) string {
	var wrong []string
	for _, check := range l.prober.Run(ctx, "default", l.probes, ops.ProbeObserve) {
		if check.Status != ops.Healthy {
			wrong = append(wrong, fmt.Sprintf("%s is %s: %s", check.Service, check.Status, check.Error))
		}
	}
	return strings.Join(wrong, "\n")
}

// session starts the agent once and returns its answer.
func (l *plainLoop) session(ctx context.Context, p *pair, down string) string {
	ctx, cancel := context.WithTimeout(ctx, p.stretch(plainSession))
	defer cancel()
	prompt := fmt.Sprintf("You look after this machine. Something is down:\n\n%s\n\n%s\nFind the cause and repair it. End your last message with RESOLVED, "+
		"HEALTHY or HUMAN NEEDED.", down, p.fault.Notes)
	cmd := exec.CommandContext(ctx, "claude", "-p", prompt, "--output-format", "json", "--model", "sonnet", "--permission-mode", "dontAsk",
		"--allowedTools", strings.Join(plainAllowed(p.fault), ","), "--disallowedTools", strings.Join(plainDenied(), ","))
	if l.sandbox {
		settings, err := json.Marshal(claudeSandbox(p.fault))
		if err != nil {
			return ""
		}
		cmd.Args = append(cmd.Args, "--settings", string(settings))
	}
	read := l.readClaude
	if p.usesCodex() {
		provider := fmt.Sprintf(`model_providers.scripted={name="scripted",base_url=%q,env_key="OPENAI_API_KEY",wire_api="responses"}`, p.codex.URL())
		cmd = exec.CommandContext(ctx, "codex", "exec", "--json", "--skip-git-repo-check", "-s", "danger-full-access", "-m", codexModel,
			"-c", `model_provider="scripted"`, "-c", provider, prompt)
		read = l.readCodex
	}
	cmd.Dir = "/srv/repos/infra"
	cmd.Env = append(p.environ(), "ANTHROPIC_BASE_URL="+p.claude.URL(), "ANTHROPIC_API_KEY=no-key-is-needed-here", "DISABLE_TELEMETRY=1",
		"DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=2", "OPENAI_API_KEY=no-key-is-needed-here")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, time.Second
	_ = cmd.Run() // a failure is an answer that says nothing
	answer := read(stdout.Bytes())
	l.claim.Decisions = append(l.claim.Decisions, "the agent ended with: "+answer+" "+string(tail(stderr.Bytes(), 300)))
	return answer
}

// readClaude takes answer and cost from the result of Claude Code.
func (l *plainLoop) readClaude(stdout []byte) string {
	var result struct {
		Result string  `json:"result"`
		Cost   float64 `json:"total_cost_usd"`
		Usage  struct {
			Input  int64 `json:"input_tokens"`
			Output int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	_ = json.Unmarshal(stdout, &result)
	l.claim.Dollars += result.Cost
	l.claim.Tokens += result.Usage.Input + result.Usage.Output
	return result.Result
}

// readCodex takes the last message and the tokens from the events of Codex. It reports no cost.
func (l *plainLoop) readCodex(stdout []byte) (answer string) {
	for line := range bytes.Lines(stdout) {
		var event struct {
			Item struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"item"`
			Usage struct {
				Input  int64 `json:"input_tokens"`
				Output int64 `json:"output_tokens"`
			} `json:"usage"`
		}
		if json.Unmarshal(line, &event) != nil {
			continue
		}
		if event.Item.Type == "agent_message" {
			answer = event.Item.Text
		}
		l.claim.Tokens += event.Usage.Input + event.Usage.Output
	}
	return answer
}

// Stop returns what the loop believes.
func (l *plainLoop) Stop(p *pair) (Claim, error) {
	l.claim.Told = p.people.since(p.broken, func(string) bool { return false })
	l.claim.Human = len(l.claim.Told) > 0
	return l.claim, nil
}
