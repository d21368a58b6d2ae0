package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/agent/codex"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/notify"
)

// UsedAgent is an agent CLI that handlers use.
type UsedAgent struct {
	Name    string // claude or codex
	Bin     string
	Adapter agent.Adapter
	Hint    string   // how it is installed
	Command string   // the command that installs it
	Keys    []string // the variables that can hold its key
	// NoKey and KeyHint are said when none of them does.
	NoKey, KeyHint string
	// KeyLines or KeyCommand are copied to give one.
	KeyLines, KeyCommand string
}

// UsedAgents are the agent CLIs that the handlers of an environment use.
func UsedAgents(c *config.Config, p ops.Policy) []UsedAgent {
	uses := func(name string) bool {
		return slices.ContainsFunc(p.Handlers, func(h ops.Handler) bool { return h.Agent == name })
	}
	var out []UsedAgent
	if uses("claude") && !c.Agent.Scripted() {
		out = append(out, UsedAgent{
			claudeAgent, c.Agent.Bin, claude.New(claude.Options{Bin: c.Agent.Bin, ExtraEnv: c.Agent.Env}), claude.InstallHint, claude.InstallCommand,
			[]string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"},
			"neither ANTHROPIC_API_KEY nor CLAUDE_CODE_OAUTH_TOKEN is set",
			"Give one of them to the daemon and start it again: in the shell that starts it, in /etc/claudeops/secrets (package) or in .env " +
				"(compose). 'claude setup-token' creates a token from a subscription; your own login does not count",
			"agent:\n  api_key_file: /etc/claudeops/api-key", "",
		})
	}
	if uses("codex") {
		out = append(out, UsedAgent{
			codexAgent, c.Agent.CodexBin, codex.New(codex.Options{Bin: c.Agent.CodexBin, ExtraEnv: c.Agent.Env}),
			codex.InstallHint, codex.InstallCommand,
			[]string{"OPENAI_API_KEY"},
			"OPENAI_API_KEY is not set", "Codex has its own home folder and cannot use your login. Set the key",
			"", "export OPENAI_API_KEY=your-key",
		})
	}
	return out
}

// HasKey reports whether an environment holds a key for the agent.
func (u UsedAgent) HasKey(env []string) bool {
	return elsewhere(env) || slices.ContainsFunc(u.Keys, func(name string) bool { return agent.Variable(env, name) != "" })
}

// elsewhere: Claude Code uses a cloud whose credentials are not a key.
func elsewhere(env []string) bool {
	return agent.Variable(env, "CLAUDE_CODE_USE_BEDROCK") != "" || agent.Variable(env, "CLAUDE_CODE_USE_VERTEX") != ""
}

// SetupOptions are what a Setup looks at.
type SetupOptions struct {
	Config       *config.Config
	Environments []ops.Environment
	Store        *store.Store // nil before there is one
	Trials       *Trials      // nil: nothing is tried
	Changed      func()       // called after a look
}

// Setup tells how far the set-up has come, as this process sees it. What takes time is looked at when somebody asks, and kept.
type Setup struct {
	SetupOptions

	begin func(look func(context.Context)) // starts a look that a page does not wait for
	end   func()

	mu         sync.Mutex
	closed     bool          // no look begins any more
	looking    chan struct{} // closed when the look under way ends; nil while there is none
	looked     time.Time
	agent, key api.SetupRow
	notified   bool
}

// NewSetup returns what tells how far the set-up has come. The caller closes it.
func NewSetup(ctx context.Context, o SetupOptions) *Setup {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	checked := func(step string) api.SetupRow {
		return api.SetupRow{Step: step, State: api.SetupUnknown, Detail: "is being checked"}
	}
	var looks sync.WaitGroup
	return &Setup{
		SetupOptions: o, agent: checked(api.StepAgent), key: checked(api.StepKey),
		begin: func(look func(context.Context)) { looks.Go(func() { look(life) }) },
		end:   func() { end(); looks.Wait() },
	}
}

// Close ends what is being looked at. Rows are what was known then.
func (s *Setup) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.end()
	return nil
}

const (
	// lookTime bounds a look: the versions of programs and the requests to APIs.
	lookTime = 15 * time.Second
	// lookAgain is how long a page goes without a look while there is no agent.
	lookAgain = 15 * time.Second
	// testAgain is how long a key is not tested again, however often somebody asks.
	testAgain = 5 * time.Second
)

// Rows are the steps of the set-up. Whoever asks waits for a new look; others get what the last one found. A key that was accepted is not
// tested again.
func (s *Setup) Rows(ctx context.Context, ask bool) []api.SetupRow {
	s.mu.Lock()
	due := ask || s.looked.IsZero() || s.agent.State == api.SetupTodo && time.Since(s.looked) > lookAgain
	if due && s.looking == nil && !s.closed {
		s.looking = make(chan struct{})
		test := s.looked.IsZero() || ask && s.key.State != api.SetupDone && time.Since(s.looked) > testAgain
		s.begin(func(ctx context.Context) { s.look(ctx, test, ask) })
	}
	looking := s.looking
	s.mu.Unlock()
	if ask && looking != nil {
		select {
		case <-looking:
		case <-ctx.Done():
		}
	}
	notified, unseen := s.delivered(ctx), s.unseen(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return []api.SetupRow{s.agent, s.key, s.services(unseen), s.trust(), s.notifications(notified)}
}

func (s *Setup) look(ctx context.Context, test, again bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, key := s.agents(ctx, again), api.SetupRow{}
	if test {
		key = s.keys(ctx)
	}
	s.mu.Lock()
	if s.agent = found; test {
		s.key = key
	}
	s.looked = time.Now()
	close(s.looking)
	s.looking = nil
	s.mu.Unlock()
	s.Changed()
}

// agents finds the programs that handlers need. Again tries those once more that could not be held.
func (s *Setup) agents(ctx context.Context, again bool) api.SetupRow {
	row := api.SetupRow{Step: api.StepAgent, State: api.SetupDone}
	if s.Config.Agent.Scripted() {
		row.Detail = "the built-in scripted agent"
		return row
	}
	env := s.Environments[0]
	var details []string
	for _, u := range UsedAgents(s.Config, env.Policy) {
		able := u.Adapter.Able(ctx, env.AgentEnv)
		path, version := able.Program, able.Version
		todo := func(why string) {
			details = append(details, redact.New(s.Config.Secrets).String(why))
			row.State, row.Blocks, row.Next, row.Command = api.SetupTodo, true, u.Hint, u.Command
		}
		switch {
		case path == "":
			todo(fmt.Sprintf("%q is not installed", u.Bin))
		case able.Why != "":
			todo(able.Why)
		case !able.Known:
			details = append(details, path+" does not report its version")
			row.State, row.Next = api.SetupUnknown, "It runs without the features that need a known version"
		case u.Name == claudeAgent && claude.TooOld(version):
			details = append(details, fmt.Sprintf("%s is version %s; tiers above 1 need %s or newer", path, version, claude.OldestVersion))
			row.State, row.Blocks, row.Command = api.SetupTodo, true, claude.InstallCommand
			row.Next = "Update it, or set CLAUDEOPS_CLAUDE_BIN to a newer one"
		default:
			held, err := s.Trials.Held(ctx, u.Name, u.Adapter, env, again)
			if err != nil {
				todo(err.Error())
				continue
			}
			detail := fmt.Sprintf("%s, version %s", path, version)
			if held.Held {
				detail += ", held: " + held.Found()
			}
			details = append(details, detail)
		}
	}
	row.Detail = cmp.Or(strings.Join(details, "; "), "programs of your own")
	return row
}

// keys asks the APIs whether they take the keys of the agents.
func (s *Setup) keys(ctx context.Context) api.SetupRow {
	row := api.SetupRow{Step: api.StepKey, State: api.SetupDone}
	env := s.Environments[0]
	var details []string
	for _, u := range UsedAgents(s.Config, env.Policy) {
		found := agent.KeyCheck{State: agent.KeyUntested, Detail: "the cloud of the model has credentials of its own"}
		if !elsewhere(env.AgentEnv) {
			found = agent.CheckKey(ctx, env.AgentEnv, u.Keys...)
		}
		switch found.State {
		case agent.KeyAccepted:
			details = append(details, "the API accepts "+found.Variable)
		case agent.KeyUntested:
			details = append(details, strings.TrimSpace(found.Variable+" not tested: "+found.Detail))
			if row.State == api.SetupDone {
				row.State = api.SetupUnknown
			}
		case agent.KeyMissing:
			details = append(details, u.NoKey)
			row.State, row.Next, row.Lines, row.Command = api.SetupTodo, u.KeyHint, u.KeyLines, u.KeyCommand
		case agent.KeyPlaceholder:
			details = append(details, found.Variable+" holds the example of the documentation, not a key")
			row.State, row.Blocks, row.Next = api.SetupTodo, true, "Put your own key in its place, and restart claudeops"
		case agent.KeyRefused:
			details = append(details, "the API refuses "+found.Variable)
			row.State, row.Blocks, row.Next = api.SetupTodo, true, "Set a valid key, and restart claudeops"
		}
	}
	row.Detail = cmp.Or(strings.Join(details, "; "), "none is needed")
	return row
}

// unseen are the services of which nothing is known, because the container engine has never answered. One that did and does not any more
// is an incident.
func (s *Setup) unseen(ctx context.Context) []string {
	var out []string
	for _, e := range s.Environments {
		in := func(p ops.ProbeSpec) bool { return p.Type == "container" }
		if s.Store == nil || !slices.ContainsFunc(e.Probes, in) {
			continue
		}
		states, err := s.Store.Reports.StatesOf(ctx, e.Name, ops.EngineService)
		if err != nil || !slices.ContainsFunc(states, func(v ops.CheckState) bool { return v.Level == "" && !v.Newest().Known() }) {
			continue
		}
		for _, p := range e.Probes {
			if in(p) && !slices.Contains(out, p.Service) {
				out = append(out, p.Service)
			}
		}
	}
	return out
}

func (s *Setup) services(unseen []string) api.SetupRow {
	row := api.SetupRow{Step: api.StepService, State: api.SetupDone, Page: "/services"}
	services, probes := 0, 0
	for _, e := range s.Environments {
		services += len(e.Policy.Inventory.Services)
		probes += len(e.Probes)
	}
	switch {
	case services == 0:
		row.State, row.Detail, row.Next, row.Page = api.SetupTodo, "nothing is watched", "Add your first service", "/settings/services/new"
		row.Lines = "services:\n  - name: web\n    probes:\n      - {type: http, url: \"http://127.0.0.1:80/\", expect_status: 200}"
		if s.Config.File == "" {
			row.Next, row.Command, row.Lines = "Let claudeops find what runs here", "claudeops init", ""
		}
	case probes == 0:
		row.Detail = ops.Plural(services, "service is", "services are") + " listed, without a probe"
	default:
		row.Detail = ops.Plural(services, "service is", "services are") + " watched by " + ops.Plural(probes, "probe", "probes")
	}
	if len(unseen) > 0 {
		row.State = api.SetupTodo
		row.Detail = "the container engine at " + s.Config.Docker.Socket + " has never answered, so nothing is known of " + ops.Listed(unseen)
		row.Page, row.Next = "", "Start it, or set docker.socket; the user of claudeops needs the group of the socket"
	}
	return row
}

func (s *Setup) trust() api.SetupRow {
	row := api.SetupRow{Step: api.StepTrust, State: api.SetupTodo, Page: "/config?q=trust"}
	own := 0
	var level ops.Trust
	for _, e := range slices.Backward(s.Environments) {
		level = cmp.Or(e.Policy.Trust, level)
		for _, service := range e.Policy.Inventory.Services {
			if service.Trust != "" {
				own++
			}
			row.Page = "/services/" + url.PathEscape(e.Name) + "/" + url.PathEscape(service.Name)
		}
	}
	if slices.ContainsFunc(s.Environments, func(e ops.Environment) bool { return e.Policy.DryRun }) {
		row.Detail, row.Lines, row.Page = "dry run: agents only look, whatever the trust", "dry_run: false", "/config?q=dry_run"
		row.Next = "Switch it off when you have seen what agents would do"
		return row
	}
	if level == "" && own == 0 {
		row.Detail, row.Lines = "nothing says how far agents may go, so they may do everything", "trust: suggest"
		row.Next = "Choose a level: watch, suggest, ask, repair or full"
		return row
	}
	words := map[ops.Trust]string{
		ops.TrustWatch: "probes look, and no agent starts", ops.TrustSuggest: "agents look and propose",
		ops.TrustAsk: "agents repair after your approval", ops.TrustRepair: "agents repair, Tier 3 after your approval",
		ops.TrustFull: "agents repair without asking",
	}
	row.State, row.Detail = api.SetupDone, level.String()+": "+words[ops.Trust(level.String())]
	if own > 0 {
		row.Detail += "; " + ops.Plural(own, "service has a level of its own", "services have levels of their own")
	}
	return row
}

// targets are those of all routes.
func targets(c *config.Config) []string {
	urls := slices.Concat(c.AppriseURLs, c.Edges.SecondURLs)
	for _, r := range c.NoticeRoutes {
		urls = append(urls, r.URLs...)
	}
	return urls
}

// delivered reports whether a notice has reached somebody.
func (s *Setup) delivered(ctx context.Context) bool {
	s.mu.Lock()
	notified := s.notified
	s.mu.Unlock()
	if notified || s.Store == nil {
		return notified
	}
	sent, err := s.Store.People.NoticeList(ctx, store.NoticeFilter{Status: ops.NoticeSent, Limit: 1})
	notified = err == nil && len(sent) > 0 // a database that cannot be read has told nobody
	s.mu.Lock()
	s.notified = notified
	s.mu.Unlock()
	return notified
}

func (s *Setup) notifications(notified bool) api.SetupRow {
	row := api.SetupRow{Step: api.StepNotifications, State: api.SetupTodo, Page: "/notifications"}
	urls := targets(s.Config)
	if len(urls) == 0 && s.Config.AppriseAPI == "" {
		row.Detail, row.Next = "no target is configured, so nobody is told when a human is needed", "Add one, then send a test"
		row.Page = "/settings/notifications/new"
		row.Lines = "notify:\n  apprise_urls: [\"ntfys://ntfy.sh/a-name-nobody-guesses\"]"
		return row
	}
	if s.Config.AppriseAPI == "" && len(notify.ParseTargets(urls).Apprise) > 0 {
		if _, err := exec.LookPath("apprise"); err != nil {
			row.Blocks, row.Detail = true, "the apprise program is not installed"
			row.Next, row.Command = "Install it (apt install apprise) or set CLAUDEOPS_APPRISE_API", "apt install apprise"
			return row
		}
	}
	row.Detail = strings.Join(sender(s.Config, urls, "", notify.Native{}).Names(), ", ")
	if !notified {
		row.Detail += ": nothing was delivered yet"
		row.Next, row.Command = "Send a test", TestCommand
		return row
	}
	row.State = api.SetupDone
	return row
}

// TestCommand sends a test to whom every notice goes.
const TestCommand = "claudeops notify test"

// idle reports whether a scheduled cycle of an environment could do nothing: no agent is installed, and nothing is watched.
func (p *plan) idle(name string) bool {
	e := p.environment(name)
	if len(e.Policy.Inventory.Services) > 0 || len(e.Probes) > 0 || p.Config.Agent.Scripted() {
		return false
	}
	used := UsedAgents(p.Config, e.Policy)
	return len(used) > 0 && !slices.ContainsFunc(used, func(u UsedAgent) bool {
		found, _ := agent.Find(u.Bin, "", e.AgentEnv)
		return found.File != ""
	})
}

// examined checks this machine for the API, and whether this host may work now, without secrets; nil if nobody can.
func (p *plan) examined() func(context.Context) []api.Finding {
	if p.Examine == nil {
		return nil
	}
	return func(ctx context.Context) []api.Finding {
		out := p.Examine(ctx)
		if trouble := p.trouble(); trouble != "" {
			out = append(out, api.Finding{Check: "ready", State: "problem", Detail: trouble})
		}
		if still, err := p.store.People.Standstill(ctx); err == nil && still != nil {
			out = append(out, api.Finding{Check: "ready", State: "warning", Detail: still.Refuses().Error()})
		}
		for i := range out {
			out[i].Detail, out[i].Fix = p.redact(out[i].Detail), p.redact(out[i].Fix)
		}
		return out
	}
}
