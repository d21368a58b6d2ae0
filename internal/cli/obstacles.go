package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
)

// The agents of handlers as the configuration names them.
const (
	agentClaude  = "claude"
	agentCodex   = "codex"
	agentCommand = "command"
)

// obstacles are the reasons why a handler of the configuration could not run on this machine.
func obstacles(cfg *config.Config) []finding {
	out := unfit(cfg)
	env := cfg.Environments()[0]
	if !uses(env.Policy, agentClaude) {
		return out
	}
	if _, err := agent.Find(cfg.Agent.Bin, "", env.AgentEnv); err != nil {
		out = append(out, finding{"agent", "problem", fmt.Sprintf("%q is not installed", cfg.Agent.Bin), claude.InstallHint})
	}
	if f := credentials(cfg); f.State != "ok" {
		out = append(out, f)
	}
	return out
}

// unfit are the handlers whose program, key or sandbox is missing, except for what is said of Claude Code elsewhere.
func unfit(cfg *config.Config) []finding {
	self, err := os.Executable()
	if err != nil {
		return []finding{{"handlers", "problem", err.Error(), ""}}
	}
	env := cfg.Environments()[0]
	var out []finding
	if uses(env.Policy, agentCodex) {
		out = append(out, codexFindings(cfg, env.AgentEnv)...)
	}
	sandbox := daemon.Walls(cfg, env, self)
	for _, h := range env.Policy.Handlers {
		may := highest(env.Policy, h)
		layers := sandbox.Layers(may)
		held := slices.Contains(layers, wall.LayerLandlock) || slices.Contains(layers, wall.LayerBubblewrap)
		switch {
		case h.Agent == agentCodex && may > ops.Tier1 && !held:
			out = append(out, finding{
				"handler " + h.ID, "problem",
				"it cannot run: no gate checks the commands of Codex, so above Tier 1 it needs the sandbox layer landlock or bubblewrap",
				"Set sandbox: auto, or use another agent for " + may.String(),
			})
		case h.Agent == agentCommand && !cfg.Agent.CommandTrusted && !held:
			out = append(out, finding{
				"handler " + h.ID, "problem",
				"it cannot run: no gate checks what a command does, so it needs the sandbox layer landlock or bubblewrap",
				"Set sandbox: auto, or agent.command_trusted: true if you trust your programs",
			})
		}
		if h.Agent == agentCommand && len(h.Command) > 0 {
			if _, err := agent.Find(h.Command[0], "", env.AgentEnv); err != nil {
				missing := fmt.Sprintf("%q is not installed", h.Command[0])
				out = append(out, finding{"handler " + h.ID, "problem", missing, "Install it or correct command"})
			}
		}
	}
	return out
}

func codexFindings(cfg *config.Config, env []string) []finding {
	var out []finding
	if _, err := agent.Find(cfg.Agent.CodexBin, "", env); err != nil {
		out = append(out, finding{
			"agent codex", "problem", fmt.Sprintf("%q is not installed", cfg.Agent.CodexBin),
			"Install it with 'npm install -g @openai/codex' or set CLAUDEOPS_CODEX_BIN",
		})
	}
	if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "OPENAI_API_KEY=") && !strings.HasSuffix(v, "=") }) {
		out = append(out, finding{
			"credentials codex", "warning", "OPENAI_API_KEY is not set", "Codex has its own home folder and cannot use your login. Set the key",
		})
	}
	return out
}

// uses reports whether a handler has that agent.
func uses(p ops.Policy, name string) bool {
	return slices.ContainsFunc(p.Handlers, func(h ops.Handler) bool { return h.Agent == name })
}

// highest is the highest tier whose permissions a handler gets: its own, or that of a handler that it replaces.
func highest(p ops.Policy, h ops.Handler) ops.Tier {
	may := h.May()
	for _, o := range p.Handlers {
		if slices.Contains(o.Fallback, h.ID) {
			may = max(may, o.May())
		}
	}
	return may
}

// oldPrices warns of built-in prices that are old.
func oldPrices(cfg *config.Config, now time.Time) []finding {
	var out []finding
	for _, p := range cfg.StalePrices(now) {
		out = append(out, finding{
			"prices", "warning",
			fmt.Sprintf("the built-in prices of %s (%s) are of %s, so costs may be wrong", strings.Join(p.Models, ", "), p.Maker, p.Date),
			"Set current ones with prices; see " + p.Source,
		})
	}
	return out
}
