package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"claudeops/internal/agent"
	"claudeops/internal/agent/process"
	"claudeops/internal/api"
	"claudeops/internal/api/situation"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/daemon/control"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func (a doctor) command() *cobra.Command {
	return a.withSettings(&cobra.Command{
		Use:   "doctor",
		Short: "Check prerequisites and say how to fix problems",
		Long: `Checks the steps of the set-up (agent, key, services, trust, notifications) and the machine. A running daemon is
asked what it sees; its PATH and environment are what counts. Without one, this program looks for itself and says so. The walls around
agents are one row; --verbose lists them. Exits 1 when there is a problem.`,
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, err := a.load()
			if err != nil {
				return err
			}
			found, seen, err := a.consult(c.Context(), cfg)
			if err != nil {
				return err
			}
			findings := append(api.Rows(found.Setup, setupFinding), found.Checks...)
			if a.output == asTable {
				_, err = io.WriteString(a.Stdout, a.screen.paintMarks(a.diagnosis(cfg, seen, found.Setup, findings)))
			} else {
				err = printRows(a.app, findings, "", nil)
			}
			if slices.ContainsFunc(findings, func(f api.Finding) bool { return f.State == "problem" }) {
				return errors.Join(err, quietly(exitError))
			}
			return err
		},
	})
}

// consult asks the daemon of the state folder what it sees. Without one, this process looks for itself.
func (a doctor) consult(ctx context.Context, cfg *config.Config) (found api.Examination, seen string, err error) {
	seen = "No daemon runs; this is what your shell sees."
	if err := a.useDaemon(ctx); err != nil {
		seen = "The daemon cannot be asked (" + clean(err.Error()) + "); this is what your shell sees."
	} else if a.remote != nil {
		found, err := get[api.Examination](ctx, a.remote, "/doctor")
		if err == nil {
			return found, "", nil
		}
		seen = "The daemon did not answer (" + clean(err.Error()) + "); this is what your shell sees."
	}
	a.peek(ctx, cfg, func(rows *store.Store, _ error) {
		self, _ := os.Executable() // without it nothing is tried
		trials := daemon.NewTrials(cfg, self, rows, false, slog.New(slog.DiscardHandler))
		setup := daemon.NewSetup(ctx, daemon.SetupOptions{
			Config: cfg, Environments: cfg.Environments(), Store: rows, Trials: trials, Changed: func() {},
		})
		found.Setup, err = setup.Rows(ctx, true), setup.Close()
	})
	found.Checks = a.examine(ctx, cfg)
	return found, seen, err
}

// peek opens the database for checks that say what they can without it: then there is no store, but an error.
func (a doctor) peek(ctx context.Context, cfg *config.Config, use func(*store.Store, error)) {
	s, err := store.OpenReadOnly(ctx, a.storeOptions(cfg))
	if err != nil {
		use(nil, err)
		return
	}
	defer func() { _ = s.Close() }()
	use(s, nil)
}

// checked is the result of one check.
func checked(check, state, detail, fix string) api.Finding {
	return api.Finding{Check: check, State: state, Detail: detail, Fix: fix}
}

// setupFinding is a step of the set-up in the words of a check.
func setupFinding(r api.SetupRow) api.Finding {
	f := checked(r.Step, "ok", r.Detail, r.Next)
	switch r.State {
	case api.SetupDone:
	case api.SetupUnknown:
		f.State = "unknown"
	case api.SetupTodo:
		f.State = "warning"
		if r.Blocks {
			f.State = "problem"
		}
	}
	return f
}

// diagnosis is what doctor prints for people: the steps of the set-up, the checks, and what to type next.
func (a doctor) diagnosis(cfg *config.Config, seen string, steps []api.SetupRow, findings []api.Finding) string {
	part := func(f api.Finding) bool { return strings.HasPrefix(f.Check, wallPart) }
	count := map[string]int{}
	for _, f := range findings {
		if !part(f) {
			count[f.State]++
		}
	}
	if !a.verbose {
		findings = slices.DeleteFunc(slices.Clone(findings), part)
	}
	wide := 0
	for _, f := range findings {
		wide = max(wide, len(f.Check))
	}
	var b strings.Builder
	if seen != "" {
		b.WriteString(seen + "\n\n")
	}
	symbols := map[string]string{"ok": "✓", "warning": "!", "problem": "✗", "unknown": "?"}
	indent := strings.Repeat(" ", 3+wide+gap)
	for i, f := range findings {
		text := f.Detail
		if f.Fix != "" {
			text = strings.TrimSuffix(text, ".") + ". " + f.Fix
		}
		lines := wrapped(clean(text), a.screen.width-len(indent))
		if i < len(steps) && steps[i].State == api.SetupTodo {
			if copied := or(steps[i].Lines, notSaid(steps[i])); copied != "" {
				lines = append(lines, strings.Split("  "+strings.ReplaceAll(copied, "\n", "\n  "), "\n")...)
			}
		}
		fmt.Fprintf(&b, "%s  %-*s  %s\n", symbols[f.State], wide, f.Check, strings.Join(lines, "\n"+indent))
		if i == len(steps)-1 {
			b.WriteString("\n")
		}
	}
	summary := "No problems"
	if count["problem"]+count["warning"] > 0 {
		summary = ops.Plural(count["problem"], "problem", "problems") + ", " + ops.Plural(count["warning"], "warning", "warnings")
	}
	return b.String() + "\n" + summary + ". Next: " + nextCommand(cfg, seen == "", steps, count["problem"]) + "\n"
}

// notSaid is the command of a step, if its sentence does not name it.
func notSaid(r api.SetupRow) string {
	if strings.Contains(r.Next, r.Command) {
		return ""
	}
	return r.Command
}

// nextCommand is what to type after doctor.
func nextCommand(cfg *config.Config, serves bool, steps []api.SetupRow, problems int) string {
	for _, r := range steps {
		switch {
		case r.State != api.SetupTodo:
		case r.Command != "":
			return r.Command
		case r.Lines != "":
			return "add the lines above to " + or(cfg.File, "claudeops.yaml") + ", then claudeops config check"
		default:
			return "claudeops doctor, after that"
		}
	}
	switch {
	case problems > 0:
		return "claudeops doctor, after that"
	case serves:
		return "claudeops open"
	}
	return "claudeops serve"
}

// wrapped breaks a text into lines of at most width characters; a narrow width breaks nothing.
func wrapped(text string, width int) []string {
	const narrow = 20
	var out []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if width >= narrow && line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			out, line = append(out, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(out, line)
}

// examine checks this machine, with what this process sees.
func (a doctor) examine(ctx context.Context, cfg *config.Config) []api.Finding {
	out := []api.Finding{checked("configuration", "ok", or(cfg.File, "no file; environment and defaults"), "")}
	for _, n := range cfg.Notices {
		out = append(out, checked("configuration", "warning", n, ""))
	}
	out = append(out, stateFolder(cfg))
	a.peek(ctx, cfg, func(rows *store.Store, err error) {
		out = slices.Concat(out, database(ctx, cfg, rows, err), lastCycle(ctx, rows), unprobed(ctx, cfg, rows), unfit(cfg),
			oldPrices(cfg, time.Now()), []api.Finding{running(ctx, cfg), processes(), access(cfg), a.guardLayer(cfg), dockerBroker(ctx, cfg)},
			wallLayers(cfg))
	})
	return out
}

func stateFolder(cfg *config.Config) api.Finding {
	err := os.MkdirAll(cfg.StateDir, 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.CreateTemp(cfg.StateDir, ".doctor-*"); err == nil {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return checked("state folder", "problem", err.Error(), "Make it writable or set CLAUDEOPS_STATE_DIR")
	}
	if err := daemon.CheckStateFolder(cfg.StateDir); err != nil {
		return checked("state folder", "problem", err.Error(), "")
	}
	return checked("state folder", "ok", cfg.StateDir+" is writable", "")
}

// databaseTime is how long the check of the database may take: the answer of a daemon has to come within a minute.
const databaseTime = 20 * time.Second

func database(ctx context.Context, cfg *config.Config, s *store.Store, err error) []api.Finding {
	path := daemon.DatabasePath(cfg)
	if cfg.DatabaseURL != "" {
		path = "the PostgreSQL database"
	}
	if errors.Is(err, ops.ErrNotFound) {
		return []api.Finding{checked("database", "ok", "not created yet; the first start creates "+path, "")}
	}
	if err != nil {
		return []api.Finding{checked("database", "problem", err.Error(), "")}
	}
	looking, cancel := context.WithTimeout(ctx, databaseTime)
	defer cancel()
	if err := s.QuickCheck(looking); errors.Is(looking.Err(), context.DeadlineExceeded) {
		detail := path + " is too large to be checked here within " + databaseTime.String()
		return []api.Finding{checked("database", "unknown", detail, "'claudeops db check' takes its time")}
	} else if err != nil {
		return []api.Finding{checked("database", "problem", err.Error(), "Restore a backup of "+path)}
	}
	n, err := s.Reports.Counts(ctx)
	if err != nil {
		return []api.Finding{checked("database", "problem", err.Error(), "")}
	}
	out := []api.Finding{checked("database", "ok", fmt.Sprintf("%s is not damaged: %s, %s", path,
		ops.Plural(n.Cycles, "cycle", "cycles"), ops.Plural(n.Sessions, "session", "sessions")), "")}
	if ahead, known := s.Skew(); known {
		out = append(out, clock(ahead))
	}
	return out
}

// clock compares this machine's clock with the database's.
func clock(ahead time.Duration) api.Finding {
	if ahead.Abs() <= ops.MaxClockSkew {
		return checked("clock", "ok", "agrees with the database's", "")
	}
	return checked(
		"clock", "warning", "this machine's clock is "+ops.ClockDifference(ahead)+" the database's",
		"Claude Ops uses the database's time; synchronize the clocks (NTP), because logs and other programs use this machine's",
	)
}

// lastCycle repeats what the newest cycle asked for, so that what only the model's API can tell, such as a wrong key, is found here too.
func lastCycle(ctx context.Context, s *store.Store) []api.Finding {
	if s == nil {
		return nil // the check of the database says why
	}
	cycles, err := s.Reports.Cycles(ctx, store.CycleFilter{Limit: 1})
	if err != nil || len(cycles) == 0 {
		return nil
	}
	todo := adviceOf(cycles[0])
	if todo == "" {
		return nil
	}
	return []api.Finding{checked("last cycle", "warning", fmt.Sprintf("cycle %d ended %s", cycles[0].ID, cycles[0].Status), clean(todo))}
}

// priceTimeout is how long the database may take to say what looks cost.
const priceTimeout = 3 * time.Second

// unprobed says who looks at the services that have no probe beside others that have one, and at what price.
func unprobed(ctx context.Context, cfg *config.Config, s *store.Store) []api.Finding {
	envs := slices.DeleteFunc(cfg.Environments(), func(e ops.Environment) bool { return len(e.Policy.Unprobed()) == 0 })
	ctx, cancel := context.WithTimeout(ctx, priceTimeout)
	defer cancel()
	var out []api.Finding
	for _, e := range envs {
		var price *float64 // not known without a database
		if s != nil {
			price, _ = situation.LookPrice(ctx, s.Reports, e.Name, time.Now())
		}
		f := api.Finding{Check: "services without a probe", State: "ok"}
		nobody := false
		if f.Detail, nobody = situation.Unprobed(e, price); nobody {
			f.State, f.Fix = "warning", "Add a probe, or set observe_every"
		}
		if len(cfg.Environments()) > 1 {
			f.Detail = "environment " + e.Name + ": " + f.Detail
		}
		out = append(out, f)
	}
	return out
}

func running(ctx context.Context, cfg *config.Config) api.Finding {
	r, err := control.Ping(ctx, cfg.StateDir)
	if err != nil {
		return checked("daemon", "ok", "not running on this state folder", "")
	}
	return checked("daemon", "ok", fmt.Sprintf("running, pid %d", r.PID), "")
}

func (a doctor) guardLayer(cfg *config.Config) api.Finding {
	if !cfg.Guard.Enabled {
		return checked("guard", "warning", "off: only the agent CLI's own lists limit what a tier may do", "Set guard.enabled: true")
	}
	if _, _, err := guards(a).guarded("", ""); err != nil {
		return checked("guard", "problem", err.Error(), "Correct the rules file")
	}
	return checked("guard", "ok", "every tool call is checked twice: by the hook and by the shell gate", "")
}

// wallsHere are the walls around agents on this machine.
func wallsHere(cfg *config.Config) []situation.Wall {
	self, _ := os.Executable() // without it the walls that need it are missing
	e := cfg.Environments()[0] // those of the others are the same
	return daemon.AroundAgents(e, daemon.Walls(cfg, e, self))
}

// wallPart begins the checks of single walls, which only a verbose doctor prints.
const wallPart = "wall "

// wallLayers tells what stands around agents here: all in a sentence, then one line each.
func wallLayers(cfg *config.Config) []api.Finding {
	self, err := os.Executable()
	for _, e := range cfg.Environments() {
		for t := ops.Tier1; t <= ops.LastTier && err == nil; t++ {
			err = daemon.Walls(cfg, e, self).Check(t)
		}
	}
	if err != nil {
		return []api.Finding{checked("walls", "problem", err.Error(), "")}
	}
	walls := wallsHere(cfg)
	text, hole := situation.Walls(walls)
	out := []api.Finding{checked("walls", "ok", strings.TrimPrefix(text, "Walls: "), "")}
	var why []string
	for _, w := range walls {
		f := checked(wallPart+w.Name, "ok", w.State+": "+w.Detail, "")
		if w.Missing || w.Open {
			f.State = "warning"
		}
		if f.State != "ok" && w.Name != situation.Floor {
			why = append(why, w.Name+": "+w.Detail)
		}
		out = append(out, f)
	}
	if hole {
		out[0].State, out[0].Fix = "warning", strings.Join(why, "; ")
	}
	return out
}

// access says what the pages and the control socket can tell agents and people apart by.
func access(cfg *config.Config) api.Finding {
	if !daemon.AgentsSeparated(cfg) {
		return checked(
			"access", "warning", "agents have neither a user nor a cgroup of their own, so connections of agents cannot be recognised and "+
				"approvals need the token that you set (CLAUDEOPS_API_TOKEN)",
			"Set sandbox.uid, or give the service a delegated cgroup (systemd: Delegate=yes)",
		)
	}
	if cfg.APIToken == "" {
		return checked("access", "ok", "the daemon makes its token; sign in with 'claudeops open'", "")
	}
	return checked("access", "ok", "your token is used; sign in with it or with 'claudeops open'", "")
}

// dockerBroker says whether sessions get a Docker socket of their own.
func dockerBroker(ctx context.Context, cfg *config.Config) api.Finding {
	const check = "docker broker"
	socket, off := cfg.Docker.Socket, cfg.Docker.Broker == config.DockerOff
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", socket)
	if err == nil {
		_ = conn.Close()
	}
	switch {
	case off && (err == nil || !watchesContainers(cfg)):
		return checked(check, "ok", "off: agents get no Docker socket from the supervisor", "")
	case !off && !cfg.Guard.Enabled:
		return checked(check, "warning", "the guard is off, so sessions get no Docker socket", "Set guard.enabled: true")
	case err == nil:
		return checked(check, "ok", "each session gets its own socket in front of "+socket, "")
	case errors.Is(err, os.ErrPermission):
		return checked(
			check, "warning", "this user may not use "+socket,
			"Give the daemon's user the group of the socket (systemd: SupplementaryGroups=docker), and start it again",
		)
	case cfg.Docker.Broker == config.DockerAuto && errors.Is(err, os.ErrNotExist) && !watchesContainers(cfg):
		return checked(check, "ok", "no Docker engine listens at "+socket, "")
	}
	return checked(check, "warning", "no connection to the engine: "+err.Error(), "Start Docker, or set docker.socket")
}

// watchesContainers reports whether a probe asks the engine of this machine.
func watchesContainers(cfg *config.Config) bool {
	return slices.ContainsFunc(cfg.Environments(), func(e ops.Environment) bool {
		return slices.ContainsFunc(e.Probes, func(p ops.ProbeSpec) bool { return p.Type == "container" })
	})
}

func processes() api.Finding {
	if !process.CgroupAvailable() {
		fix := "Give the service a delegated cgroup (systemd: Delegate=yes)"
		if wall.InContainer() {
			fix = "This is usual in a container, whose cgroups are read-only; they end with the container at the latest"
		}
		return checked(
			"processes", "warning", "cannot create a cgroup; leftover processes of a session are found by environment variable only", fix,
		)
	}
	if !process.LimitsAvailable() {
		return checked(
			"processes", "warning", "every session gets its own cgroup, but its processes and memory cannot be limited",
			"Give the service a delegated cgroup with the controllers pids and memory (systemd: Delegate=pids memory, DelegateSubgroup=supervisor)",
		)
	}
	return checked("processes", "ok", "every session gets its own cgroup with limits", "")
}

// The agents of handlers as the configuration names them.
const (
	agentClaude  = "claude"
	agentCodex   = "codex"
	agentCommand = "command"
)

// obstacles are the reasons why a handler of the configuration could not run on this machine.
func obstacles(cfg *config.Config) []api.Finding {
	out := unfit(cfg)
	env := cfg.Environments()[0]
	for _, u := range daemon.UsedAgents(cfg, env.Policy) {
		of := " " + u.Name
		if u.Name == agentClaude {
			of = ""
		}
		if found, _ := agent.Find(u.Bin, "", env.AgentEnv); found.File == "" {
			out = append(out, checked("agent"+of, "problem", fmt.Sprintf("%q is not installed", u.Bin), u.Hint))
		}
		if !u.HasKey(env.AgentEnv) {
			out = append(out, checked("credentials"+of, "warning", u.NoKey, u.KeyHint))
		}
	}
	return out
}

// unfit are the handlers whose sandbox is missing, or whose own program.
func unfit(cfg *config.Config) []api.Finding {
	self, err := os.Executable()
	if err != nil {
		return []api.Finding{checked("handlers", "problem", err.Error(), "")}
	}
	env := cfg.Environments()[0]
	var out []api.Finding
	sandbox := daemon.Walls(cfg, env, self)
	for _, h := range env.Policy.Handlers {
		may := highest(env.Policy, h)
		layers := sandbox.Layers(may)
		held := slices.Contains(layers, wall.LayerLandlock) || slices.Contains(layers, wall.LayerBubblewrap)
		if !held && (h.Agent == agentCommand || h.Agent == agentCodex && may > ops.Tier1) {
			out = append(out, checked(
				"handler "+h.ID, "problem",
				"it cannot run: no gate checks its commands as "+may.String()+", so it needs the sandbox layer landlock or bubblewrap",
				"Set sandbox: auto, or use another agent",
			))
		}
		if h.Agent == agentCommand && len(h.Command) > 0 {
			if found, err := agent.Find(h.Command[0], "", env.AgentEnv); err != nil {
				missing := fmt.Sprintf("%q is not installed", h.Command[0])
				if found.File != "" {
					missing = err.Error()
				}
				out = append(out, checked("handler "+h.ID, "problem", missing, "Install it or correct command"))
			}
		}
	}
	return out
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
func oldPrices(cfg *config.Config, now time.Time) []api.Finding {
	var out []api.Finding
	for _, p := range cfg.StalePrices(now) {
		out = append(out, checked(
			"prices", "warning",
			fmt.Sprintf("the built-in prices of %s (%s) are of %s, so costs may be wrong", strings.Join(p.Models, ", "), p.Maker, p.Date),
			"Set current ones with prices; see "+p.Source,
		))
	}
	return out
}
