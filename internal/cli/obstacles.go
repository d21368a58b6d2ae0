package cli

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/acp"
	"claudeops/internal/agent/claude"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
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
	out = append(out, acpFindings(cfg, env)...)
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
		case strings.HasPrefix(h.Agent, ops.AgentACP) && may > ops.Tier1 && !held:
			out = append(out, finding{
				"handler " + h.ID, "problem",
				"it cannot run: a CLI behind the Agent Client Protocol need not ask before it acts, so above Tier 1 it needs the sandbox layer " +
					"landlock or bubblewrap",
				"Set sandbox: auto, or use another agent for " + may.String(),
			})
		case strings.HasPrefix(h.Agent, ops.AgentACP) && !cfg.Guard.Enabled:
			out = append(out, finding{
				"handler " + h.ID, "problem", "it cannot run: its CLI asks before it acts, and the guard, which would answer, is off",
				"Set guard.enabled: true",
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

// acpFindings are the programs of the Agent Client Protocol that handlers need and that are not there.
func acpFindings(cfg *config.Config, env ops.Environment) []finding {
	var out []finding
	for _, p := range usedProfiles(cfg, env.Policy) {
		if len(p.Command) == 0 {
			continue // the check of the configuration reports it
		}
		if _, err := agent.Find(p.Command[0], "", env.AgentEnv); err != nil {
			fix := "Install it or correct command in agent.acp"
			if p.Hint != "" {
				fix = strings.ToUpper(p.Hint[:1]) + p.Hint[1:]
			}
			out = append(out, finding{"agent " + p.Name, "problem", fmt.Sprintf("%q is not installed", p.Command[0]), fix})
		}
		if !slices.ContainsFunc(p.Keys, func(name string) bool { return agent.Variable(env.AgentEnv, name) != "" }) {
			out = append(out, finding{
				"credentials " + p.Name, "warning", "none of " + strings.Join(p.Keys, ", ") + " is set",
				"The CLI has its own home folder and cannot use your login. Set the key of its model",
			})
		}
	}
	return out
}

// usedProfiles are the profiles of the Agent Client Protocol that handlers use.
func usedProfiles(cfg *config.Config, p ops.Policy) []acp.Profile {
	return slices.DeleteFunc(acp.All(cfg.Agent.ACP), func(profile acp.Profile) bool { return !uses(p, ops.AgentACP+profile.Name) })
}

// trials are what is known of the CLIs of the Agent Client Protocol: whether they ask before they act.
func (a *app) trials(ctx context.Context, cfg *config.Config) []finding {
	used := usedProfiles(cfg, cfg.Environments()[0].Policy)
	if len(used) == 0 {
		return nil
	}
	var kept []ops.Canary
	s, err := store.OpenReadOnly(ctx, a.storeOptions(cfg))
	if err == nil { // otherwise the check of the database says why
		kept, err = s.Canaries(ctx, cfg.Host.Name)
		_ = s.Close()
		if err != nil {
			return []finding{{"agent trials", "problem", err.Error(), ""}}
		}
	}
	var out []finding
	for _, p := range used {
		check := "agent " + p.Name
		found := false
		for _, c := range kept {
			if c.Profile != p.Name || c.Settings != p.Digest() {
				continue
			}
			f := finding{check, "ok", fmt.Sprintf("version %s is trusted: %s (tried %s)", c.Version, c.Detail, c.At.Format(time.DateOnly)), ""}
			if !c.Passed {
				f.State, f.Detail = "problem", fmt.Sprintf("version %s is not trusted and does not run: %s", c.Version, c.Detail)
				f.Fix = "Install another version, or change its settings in agent.acp"
			}
			out, found = append(out, f), true
		}
		if !found {
			out = append(out, finding{
				check, "ok", "no version was tried yet; the first session tries whether it asks before it acts, with one call of its model", "",
			})
		}
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
