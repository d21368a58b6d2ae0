package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/agent/codex"
	"claudeops/internal/agent/scripted"
	"claudeops/internal/api"
	"claudeops/internal/api/mcpserver"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/failpoint"
	"claudeops/internal/guard/wall"
	"claudeops/internal/store"
	"claudeops/internal/watch"
	"claudeops/internal/watch/probe"
)

// Process is what the operating system gave us.
type Process struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Environ        []string
	Version        string
	// SystemConfig is the configuration of a packaged daemon, used if there is no other one: commands beside the daemon find its state
	// folder there. Empty means that there is none.
	SystemConfig string
}

// app is one run of the program.
type app struct {
	Process
	configPath string
	output     string
	quiet      bool
	verbose    bool
	noColor    bool
	settings   map[string]string           // settings given as flags
	settingsOf map[*cobra.Command][]string // the keys of settings that a command has flags for; none: all
	stateDir   string                      // of the configuration that was loaded
	serverURL  string
	tokenFile  string
	remote     *client  // nil: the local state folder is used
	command    string   // its name, for the record
	fields     []string // of --json
	noun       string   // what the command lists
	aside      string   // what is said beside an empty list
	screen     screen
}

// The nouns, each with its commands.
type (
	actions       struct{ *app }
	approvals     struct{ *app }
	beginning     struct{ *app }
	configs       struct{ *app }
	cooldowns     struct{ *app }
	cycles        struct{ *app }
	databases     struct{ *app }
	demonstration struct{ *app }
	doctor        struct{ *app }
	events        struct{ *app }
	guards        struct{ *app }
	handlers      struct{ *app }
	hosts         struct{ *app }
	incidents     struct{ *app }
	memories      struct{ *app }
	notifications struct{ *app }
	overviews     struct{ *app }
	reflexes      struct{ *app }
	rehearsal     struct{ *app }
	runs          struct{ *app }
	services      struct{ *app }
	serving       struct{ *app }
	sessions      struct{ *app }
	silences      struct{ *app }
	tokens        struct{ *app }
	updates       struct{ *app }
)

// Main runs the program and returns its exit code.
func Main(args []string, p Process) int {
	ctx, stop := signalled()
	defer stop()
	if err := daemon.KeepCapabilities(); err != nil {
		fmt.Fprintln(p.Stderr, "claudeops: "+err.Error())
		return exitError
	}
	root := Commands(p)
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	c, err := root.ExecuteContextC(ctx)
	code := exitCode(err)
	if said, ok := errors.AsType[*codeError](err); err != nil && (!ok || said.err != nil) {
		fmt.Fprintln(p.Stderr, strings.TrimSpace("claudeops: "+told(c, err)))
	}
	return code
}

// told is an error for a person: a field is called like the flag that it has here.
func told(c *cobra.Command, err error) string {
	if no, ok := errors.AsType[*refusal](err); ok {
		if field, rest, _ := strings.Cut(no.detail, " "); c.Flags().Lookup(field) != nil && strings.HasPrefix(rest, "is missing") {
			return "--" + no.detail
		}
	}
	return err.Error()
}

// Commands makes the commands.
func Commands(p Process) *cobra.Command {
	a := &app{Process: p, settings: map[string]string{}}
	return a.tree()
}

// quietly ends the program with a code after everything was printed.
func quietly(code int) error {
	if code == exitOK {
		return nil
	}
	return &codeError{code: code}
}

// signalled returns a context that ends with the first SIGINT or SIGTERM; a second one ends the program at once.
func signalled() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, ok := <-signals
		if !ok {
			return
		}
		if s == syscall.SIGTERM {
			cancel(errTerminated)
		} else {
			cancel(errInterrupted)
		}
		signal.Stop(signals) // the next one has its ordinary effect
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		cancel(nil)
	}
}

// errTerminated is an ordinary request to stop.
var errTerminated = errors.New("asked to stop")

// tree makes the commands.
func (a *app) tree() *cobra.Command {
	a.settingsOf = map[*cobra.Command][]string{}
	root := &cobra.Command{
		Use:   "claudeops",
		Short: "Watch services and repair failures, with agents in escalating tiers",
		Long: `Claude Ops watches your services and repairs failures. It runs agent CLIs as child processes in escalating tiers: Tier 1
observes, Tier 2 makes safe repairs, Tier 3 makes full repairs, and finally, a human takes over. This program decides every escalation
from a validated report, never the model.`,
		Example: `  claudeops demo                     show a complete incident, without an API key
  claudeops init                     write a configuration for what runs on this machine
  claudeops doctor                   what is left to set up, and the next command
  claudeops serve                    run the daemon, with web pages on http://127.0.0.1:8080
  claudeops status                   what is wrong, what is done about it, what needs you`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: a.prepare,
		Version:           a.Version,
	}
	root.SetVersionTemplate("claudeops {{.Version}} (" + runtime.Version() + ")\n")
	root.SetHelpCommand(helpCommand())
	f := root.PersistentFlags()
	f.StringVar(&a.configPath, "config", "",
		"configuration file (default ./claudeops.yaml, then the user's, then /etc/claudeops; env CLAUDEOPS_CONFIG)")
	f.StringVar(&a.serverURL, "server", "", "use the daemon at this address instead of the local state folder (env CLAUDEOPS_SERVER)")
	f.StringVar(&a.tokenFile, "token-file", "", "file that holds the token for --server (env CLAUDEOPS_API_TOKEN, CLAUDEOPS_API_TOKEN_FILE)")
	a.output = asTable
	f.VarP(&choice{"output", outputs(), &a.output}, "output", "o", "output format: table, json, jsonl or yaml")
	f.StringSliceVar(&a.fields, "json", nil, "print these fields only, as JSON: --json id,status")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "log warnings and errors only")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "log everything, and show more")
	f.BoolVar(&a.noColor, "no-color", false, "disable colors (env NO_COLOR)")
	root.SetFlagErrorFunc(wrongFlag)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "look", Title: "Inspect:"}, &cobra.Group{ID: "setup", Title: "Set up:"},
		&cobra.Group{ID: deeper, Title: "Look deeper: cooldowns, handlers, handoff (see COMMAND --help)"},
	)
	proposing(root, "output", outputs())
	for group, commands := range map[string][]*cobra.Command{
		"run": {
			serving{a}.serveCommand(), serving{a}.openCommand(), runs{a}.onceCommand(), runs{a}.runCommand(), a.reloadCommand(),
			a.stopCommand(), a.resumeCommand(),
			demonstration{a}.command(),
		},
		"look": {
			overviews{a}.command(), sessions{a}.commands(), cycles{a}.commands(), incidents{a}.commands(), approvals{a}.commands(),
			events{a}.logsCommand(),
			events{a}.command(), a.changesCommand(), silences{a}.commands(), a.trustCommand(),
			reflexes{a}.commands(), actions{a}.commands(), updates{a}.commands(), memories{a}.commands(), a.costsCommand(),
			services{a}.commands(), hosts{a}.commands(),
		},
		"setup": {
			beginning{a}.command(), a.agentCommand(), doctor{a}.command(), configs{a}.commands(), rehearsal{a}.command(), tokens{a}.commands(),
			databases{a}.commands(),
			guards{a}.commands(), notifications{a}.commands(), a.healthcheckCommand(), serving{a}.mcpCommand(), a.versionCommand(),
		},
		deeper: {cooldowns{a}.commands(), handlers{a}.commands(), handlers{a}.handoff()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.InitDefaultCompletionCmd()
	a.addFlags()
	a.helpful(root)
	complete(root)
	strict(root)
	return root
}

// deeper is the group of commands that the first help names without describing them.
const deeper = "deeper"

// prepare checks the flags that every command has.
func (a *app) prepare(c *cobra.Command, args []string) error {
	a.command = strings.Join(append([]string{c.CommandPath()}, args...), " ")
	a.noun = nounOf(c)
	a.screen = screenOf(a.Stdout, a.noColor, a.Environ)
	a.output = or(a.output, asTable)
	if len(a.fields) > 0 && a.output == asTable {
		a.output = asJSON
	}
	return a.chooseServer(c)
}

// nounOf is what a command lists.
func nounOf(c *cobra.Command) string {
	if c.Name() == "list" && c.HasParent() {
		return c.Parent().Name()
	}
	return c.Name()
}

// strict makes a wrong word a usage error instead of a page of help.
func strict(c *cobra.Command) {
	flagsOnly := c.Args == nil
	if flagsOnly {
		c.Args = noWords
	}
	check := c.Args
	c.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			switch words := strings.Fields(c.Use)[1:]; {
			case c.HasSubCommands() && len(args) > 0:
				err = fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), meantCommand(c, args[0]))
			case flagsOnly: // it has said so
			case len(args) > len(words) && len(words) > 0:
				err = fmt.Errorf("%s does not take %q: it takes %s", c.CommandPath(), clean(args[len(words)]), strings.Join(words, " "))
			case len(args) < len(words) && !strings.HasPrefix(words[len(args)], "["):
				err = fmt.Errorf("%s needs %s", c.CommandPath(), strings.Join(words[len(args):], " "))
			}
			return usage(fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath()))
		}
		return nil
	}
	if c.HasSubCommands() && c.RunE == nil && c.Run == nil {
		c.Annotations = map[string]string{atServer: canAsk}
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}

// noWords refuses what stands after a command that takes flags only.
func noWords(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s does not take %q: it takes flags only", c.CommandPath(), clean(args[0]))
	}
	return nil
}

// load reads the configuration.
func (a *app) load() (*config.Config, error) { return a.loadFrom(a.configPath, nil) }

// loadFrom reads the settings with that configuration file (empty: the usual one) and other contents of some files.
func (a *app) loadFrom(path string, instead map[string][]byte) (*config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find working folder: %w", err)
	}
	in := config.Input{
		ConfigPath: path, SystemPath: a.SystemConfig, Flags: a.settings, Environ: a.Environ, Dir: dir, Check: escalation.Flaws,
		Checks: checks(), Instead: instead,
	}
	file, state := a.installedUnit()
	if file != "" && !exists(in.SystemPath) {
		in.SystemPath = file
	}
	cfg, err := config.Load(in)
	if err != nil || state == "" || a.settings["state_dir"] != "" || a.variable(stateVariable) != "" || !sameFile(cfg.File, file) {
		return cfg, err
	}
	in.Environ = append(slices.Clone(in.Environ), stateVariable+"="+state)
	return config.Load(in)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func sameFile(one, other string) bool {
	a, _ := os.Stat(one) // one that is missing is the same as none
	b, _ := os.Stat(other)
	return os.SameFile(a, b)
}

// stateVariable names the state folder, in a shell and in the unit.
const stateVariable = "CLAUDEOPS_STATE_DIR"

// installedUnit returns the configuration and the state folder of the daemon that systemd runs here, wherever its unit puts them.
func (a *app) installedUnit() (file, state string) {
	if a.SystemConfig == "" {
		return "", ""
	}
	for _, path := range []string{"/etc/systemd/system/claudeops.service", "/usr/lib/systemd/system/claudeops.service"} {
		if text, err := os.ReadFile(path); err == nil {
			return placesOf(string(text))
		}
	}
	return "", ""
}

// placesOf reads a unit that serviceText or the package wrote.
func placesOf(unit string) (file, state string) {
	for line := range strings.Lines(unit) {
		line = strings.TrimSpace(line)
		if _, word, ok := strings.Cut(line, " serve --config "); ok && strings.HasPrefix(line, "ExecStart=") {
			if quoted, ok := strings.CutPrefix(word, `"`); ok {
				word = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(strings.TrimSuffix(quoted, `"`))
			}
			file = strings.NewReplacer("%%", "%", "$$", "$").Replace(word)
		}
		if _, rest, ok := strings.Cut(line, stateVariable+"="); ok && strings.HasPrefix(line, "Environment=") {
			state, _, _ = strings.Cut(rest, " ")
		}
	}
	return file, state
}

// checks are the checks of the packages that watch services.
func checks() config.Checks {
	return config.Checks{
		CheckProbe: probe.Validate, CheckServices: watch.CheckServices, CheckMaintenance: watch.CheckMaintenance,
		ProbeName: probe.Describe, AgentUser: agentUser,
	}
}

// quietLogger logs errors only, for commands that show the steps themselves.
func (a *app) quietLogger() *slog.Logger {
	if a.verbose {
		return a.logger()
	}
	return newLogger(a.Stderr, slog.LevelError)
}

func (a *app) logger() *slog.Logger {
	level := slog.LevelInfo
	switch {
	case a.quiet:
		level = slog.LevelWarn
	case a.verbose:
		level = slog.LevelDebug
	}
	return newLogger(a.Stderr, level)
}

func (a *app) options() (daemon.Options, error) {
	c, err := a.load()
	if err != nil {
		return daemon.Options{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return daemon.Options{}, fmt.Errorf("find own program: %w", err)
	}
	return daemon.Options{
		Config: c, Logger: a.logger(), Clock: failpoint.Clock(time.Now), Version: a.Version, Self: self,
		CheckConfig: configs{a}.row,
		LoadConfig:  func(instead map[string][]byte) (*config.Config, error) { return a.loadFrom(a.configPath, instead) },
		Examine:     func(ctx context.Context) []api.Finding { return doctor{a}.examine(ctx, c) },
	}, nil
}

// configured runs a command that needs the configuration.
func (a *app) configured(do func(c *cobra.Command, cfg *config.Config, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		cfg, err := a.load()
		if err != nil {
			return err
		}
		return do(c, cfg, args)
	}
}

// reading opens the store for a command that only reads.
func (a *app) reading(ctx context.Context, use func(*store.Store, *config.Config) error) error {
	c, err := a.load()
	if err != nil {
		return err
	}
	s, err := store.OpenReadOnly(ctx, a.storeOptions(c))
	if err != nil {
		return err
	}
	return errors.Join(use(s, c), s.Close())
}

// storeOptions say where the database is.
func (a *app) storeOptions(c *config.Config) store.Options {
	o := daemon.StoreOptions(c)
	o.Host, o.Logger, o.Version = failpoint.Clock(time.Now), a.logger(), a.Version
	return o
}

// terminal reports whether a stream is a terminal, at which a person sits.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// agentUser is the user for agents, if this machine has one and this program may change to it.
func agentUser() int {
	if os.Geteuid() != 0 && !wall.MayChangeUser() {
		return 0
	}
	found, err := user.Lookup(config.AgentUserName)
	if err != nil {
		return 0
	}
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return 0
	}
	return uid
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version",
		RunE: func(*cobra.Command, []string) error {
			return a.printOne(map[string]string{"version": a.Version, "go": runtime.Version()}, func(w io.Writer) {
				fmt.Fprintf(w, "claudeops %s (%s)\n", a.Version, runtime.Version())
			})
		},
	}
}

// agentCommand installs agent CLIs. Below it is also the built-in one, which the supervisor starts like any other.
func (a *app) agentCommand() *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "The agent program: install"}
	c.AddCommand(a.agentInstall(), &cobra.Command{
		Use: "scripted", Short: "Play a scenario in the protocol of Claude Code", Hidden: true,
		DisableFlagParsing: true, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			as := scripted.Process{Args: args, Environ: a.Environ, Stdin: a.Stdin, Stdout: a.Stdout, Stderr: a.Stderr}
			return quietly(scripted.Main(c.Context(), as))
		},
	})
	c.AddCommand(&cobra.Command{
		Use: "tools SOCKET", Short: "Offer the supervisor's tools to an agent, as an MCP server", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			return mcpserver.ServeAgent(c.Context(), mcpserver.AgentOptions{Socket: args[0], Environ: a.Environ, Version: a.Version})
		},
	})
	return c
}

func (a *app) agentInstall() *cobra.Command {
	var prefix string
	c := a.withFlags(&cobra.Command{
		Use: "install [claude|codex]", Short: "Install Claude Code or Codex where the service can run it",
		ValidArgs: []string{agentClaude, agentCodex}, Args: cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		Long: `Installs the version of Claude Code, or of Codex, that this version of claudeops is tested with into the folder programs of the
state folder, where the service looks before PATH. npm downloads it, so its registry and proxy are used; Node is not needed to run it. What
is installed has the checksum that is built into claudeops. Run it again after an upgrade of claudeops to update it.`,
		Example: `  sudo claudeops agent install       for the service
  claudeops agent install --prefix ~/bin
  sudo claudeops agent install codex`,
		RunE: a.configured(func(c *cobra.Command, cfg *config.Config, args []string) error {
			product, variable, known := "Claude Code", "CLAUDEOPS_CLAUDE_BIN", claude.KnownPackage
			adapter := func(program string) agent.Adapter { return claude.New(claude.Options{Bin: program}) }
			if len(args) > 0 && args[0] == agentCodex {
				product, variable, known = "Codex", "CLAUDEOPS_CODEX_BIN", codex.KnownPackage
				adapter = func(program string) agent.Adapter { return codex.New(codex.Options{Bin: program}) }
			}
			p, err := known()
			if err != nil {
				return err
			}
			folder, err := filepath.Abs(or(prefix, cfg.Programs()))
			if err != nil {
				return err
			}
			found := "The service uses it from its next session on."
			fmt.Fprintf(a.Stderr, "Downloading %s with npm\n", p.Name)
			path, err := agent.Install(c.Context(), p, folder, a.Environ, adapter)
			if err != nil {
				return err
			}
			if prefix != "" {
				found = "Set " + variable + "=" + path + " in the environment of claudeops, unless the folder is in its PATH."
			}
			return a.printOne(map[string]string{"path": path, "version": p.Version, "checksum": p.Sum}, func(w io.Writer) {
				fmt.Fprintf(w, "%s %s is installed: %s (%s). %s\nTo update it, upgrade claudeops and run this again.\n",
					product, p.Version, path, p.Sum, found)
			})
		}),
	}, "state_dir", "database_url")
	c.Flags().StringVar(&prefix, "prefix", "", "folder for the program (default the folder programs of the state folder)")
	return c
}
