package cli

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"claudeops"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/daemon"
	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
	"claudeops/internal/watch/survey"
)

// starter is the file that init writes if it asks nothing.
//
//go:embed starter.yaml
var starter string

// schemaFile is the name of the schema in the first line of the starter file.
const schemaFile = "claudeops.schema.json"

// What --service can write.
const (
	serviceSystemd = "systemd"
	serviceCompose = "compose"
)

// initOptions are the flags of init.
type initOptions struct {
	yes, force bool
	service    string
}

func (a beginning) command() *cobra.Command {
	var o initOptions
	c := &cobra.Command{
		Use: "init [FILE]", Short: "Write a commented configuration; on a terminal, ask for what matters first", Args: cobra.MaximumNArgs(1),
		Long: `Writes a commented configuration file. On a terminal it first looks at this machine (containers, systemd units, listening ports,
installed agent CLIs) and asks which services to watch, which agent to run, where to send notifications and whether agents only look.
Everywhere else, and with --yes, it asks nothing and writes a starter file with which agents look and propose, and change nothing.

An existing file is overwritten only with --force (exit 5). Ctrl-C writes nothing. FILE defaults to claudeops.yaml in the current folder;
use - to print the starter file to stdout. --service also writes a systemd unit or a compose file into the folder of FILE.`,
		Example: `  claudeops init
  claudeops init --yes /etc/claudeops/claudeops.yaml
  claudeops init --yes --service compose             also write compose.yaml
  claudeops config schema > claudeops.schema.json    for your editor`,
		RunE: func(c *cobra.Command, args []string) error {
			path := "claudeops.yaml"
			if len(args) == 1 {
				path = args[0]
			}
			if path == "-" {
				return a.printStarter(o)
			}
			return a.files(c.Context(), path, o)
		},
	}
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "ask nothing and write the starter file")
	c.Flags().BoolVar(&o.force, "force", false, "overwrite existing files")
	choose(c, &o.service, "service", "also write a file that runs the daemon: systemd or compose", []string{serviceSystemd, serviceCompose})
	return c
}

// printStarter writes one file to stdout: that of --service, or the configuration.
func (a beginning) printStarter(o initOptions) error {
	text := starter
	if o.service != "" {
		var err error
		if text, err = a.serviceText(o.service, "/etc/claudeops/claudeops.yaml"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(a.Stdout, text)
	return err
}

// newFile is a file to write.
type newFile struct {
	path, text string
	mode       os.FileMode
}

func (a beginning) files(ctx context.Context, path string, o initOptions) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("find folder: %w", err)
	}
	if folder := filepath.Dir(path); !exists(folder) {
		return fmt.Errorf("write %s: there is no folder %s; make it with 'mkdir -p %s'", filepath.Base(path), folder, folder)
	}
	files, err := a.serviceFiles(o.service, path)
	if err != nil {
		return err
	}
	wanted := []string{path}
	for _, f := range files {
		wanted = append(wanted, f.path)
	}
	asks := terminal(a.Stdin) && terminal(a.Stderr) && !o.yes
	if asks {
		wanted = append(wanted, filepath.Join(filepath.Dir(path), targetsFile))
	}
	// An existing file is reported before the first question, not after the last.
	if err := unused(o.force, wanted...); err != nil {
		return err
	}
	text := starter
	if asks {
		chosen, err := a.interview(ctx)
		if err != nil {
			return err
		}
		text, err = chosen.configuration()
		if err != nil {
			return err
		}
		if chosen.targets != "" {
			secret := newFile{filepath.Join(filepath.Dir(path), targetsFile), chosen.targets + "\n", 0o600}
			files = slices.Insert(files, 0, secret)
		}
	}
	files = append(files, newFile{path, text, 0o644})
	if err := a.check(path, files); err != nil {
		return err
	}
	if err := writeAll(files, o.force); err != nil {
		return err
	}
	a.saidNext(ctx, path, o.service, files)
	return nil
}

// serviceFiles are the files of --service, beside the configuration.
func (a beginning) serviceFiles(service, path string) ([]newFile, error) {
	if service == "" {
		return nil, nil
	}
	text, err := a.serviceText(service, path)
	if err != nil {
		return nil, err
	}
	name := "claudeops.service"
	if service == serviceCompose {
		name = "compose.yaml"
	}
	return []newFile{{filepath.Join(filepath.Dir(path), name), text, 0o644}}, nil
}

// serviceText is the unit with the places of this program and its configuration, or the compose file.
func (a beginning) serviceText(service, path string) (string, error) {
	if service == serviceCompose {
		return claudeops.Compose, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find own program: %w", err)
	}
	return strings.NewReplacer(
		"@VERSION@", a.Version, "/usr/bin/claudeops", unitWord(self), "/etc/claudeops/claudeops.yaml", unitWord(path),
	).Replace(claudeops.Unit), nil
}

// unitWord is a path as a word of a command in a unit.
func unitWord(path string) string {
	path = strings.NewReplacer("%", "%%", "$", "$$").Replace(path)
	if strings.ContainsAny(path, " \t\"'\\") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(path) + `"`
	}
	return path
}

// checkFiles checks a configuration with its secrets as it will be read, without this machine's variables.
func (a beginning) check(path string, files []newFile) error {
	instead, dir := map[string][]byte{}, filepath.Dir(path)
	for _, f := range files {
		instead[f.path] = []byte(f.text)
	}
	_, err := config.Load(config.Input{
		ConfigPath: path, Environ: []string{"HOME=" + dir, "PATH=" + a.variable("PATH")}, Dir: dir, Check: escalation.Flaws, Checks: checks(),
		Instead: instead,
	})
	return ops.Wrapped(err, "check configuration before writing it")
}

// unused fails if one of the files exists and may not be replaced.
func unused(force bool, paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil && !force {
			return ops.NewConflict(ops.ConflictTaken, "write %s: it exists; move it, use another name, or overwrite it with --force", path)
		}
	}
	return nil
}

// writeAll writes all files or none.
func writeAll(files []newFile, force bool) (err error) {
	var made []string
	defer func() {
		if err == nil {
			return
		}
		for _, path := range made {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	for _, f := range files {
		_, statErr := os.Lstat(f.path)
		if err := writeWhole(f, force); err != nil {
			return err
		}
		if statErr != nil {
			made = append(made, f.path) // one that was replaced cannot be taken back
		}
	}
	return nil
}

// writeWhole puts a file in its place in one step: nobody sees half of it, and without force none that exists is lost.
func writeWhole(f newFile, force bool) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(f.path), ".claudeops-*")
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	defer func() {
		if removed := os.Remove(temp.Name()); !errors.Is(removed, os.ErrNotExist) {
			err = errors.Join(err, removed)
		}
	}()
	_, err = io.WriteString(temp, f.text)
	if err := errors.Join(err, temp.Chmod(f.mode), temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	put := os.Link // fails if the file exists
	if force {
		put = os.Rename
	}
	if err := put(temp.Name(), f.path); errors.Is(err, os.ErrExist) {
		return unused(false, f.path)
	} else if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// saidNext tells what was written and what to do next.
func (a beginning) saidNext(ctx context.Context, path, service string, files []newFile) {
	for _, f := range files {
		fmt.Fprintf(a.Stderr, "wrote %s\n", shownPath(f.path))
	}
	file := shownPath(path)
	fmt.Fprintf(a.Stderr, "\nedit it, then run 'claudeops config check --config %s'\n", file)
	fmt.Fprintf(a.Stderr, "for completion in your editor, run 'claudeops config schema > %s' in the same folder\n", schemaFile)
	switch service {
	case "":
		a.saidMissing(ctx, path, file)
	case serviceSystemd:
		unit := shownPath(filepath.Join(filepath.Dir(path), "claudeops.service"))
		fmt.Fprintf(a.Stderr, "to run it, as root: useradd --system claudeops; useradd --system claudeops-agent; cp %s /etc/systemd/system/; "+
			"systemctl enable --now claudeops\n", unit)
	case serviceCompose:
		fmt.Fprintln(a.Stderr, "to run it: put CLAUDEOPS_API_TOKEN (at least 20 characters) and ANTHROPIC_API_KEY into .env, "+
			"then 'docker compose up -d'")
	}
}

// saidMissing says which steps of the set-up are left, as this shell sees them, and ends with the next command.
func (a beginning) saidMissing(ctx context.Context, path, file string) {
	a.configPath = path
	cfg, err := a.load()
	if err != nil {
		return // variables of this shell are wrong; the command that follows says so
	}
	setup := daemon.NewSetup(ctx, daemon.SetupOptions{Config: cfg, Environments: cfg.Environments(), Changed: func() {}})
	defer func() { _ = setup.Close() }()
	next := ""
	for _, r := range setup.Rows(ctx, true) {
		if r.State != api.SetupTodo {
			continue
		}
		fmt.Fprintf(a.Stderr, "missing: %s: %s. %s\n", r.Step, r.Detail, strings.TrimSuffix(r.Next+": "+notSaid(r), ": "))
		if r.Blocks {
			next = or(next, r.Command)
		}
	}
	fmt.Fprintf(a.Stderr, "\nnext: %s\n", or(next, "claudeops serve --config "+file))
}

// shownPath is a path as a person would type it here.
func shownPath(path string) string {
	dir, err := os.Getwd()
	if err != nil {
		return path
	}
	if short, err := filepath.Rel(dir, path); err == nil && !strings.HasPrefix(short, "..") {
		return short
	}
	return path
}

func (a configs) schema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the configuration file, for editors",
		Example: "  claudeops config schema > " + schemaFile,
		RunE: func(*cobra.Command, []string) error {
			text, err := config.Schema()
			if err != nil {
				return fmt.Errorf("make schema: %w", err)
			}
			_, err = io.WriteString(a.Stdout, string(text)+"\n")
			return err
		},
	}
}

// targetsFile holds the notification targets, which are secrets, beside the configuration.
const targetsFile = "claudeops.apprise"

// answers are what a person chose for the configuration.
type answers struct {
	services []survey.Service
	socket   string // of the Docker engine, if it is not the usual one
	agent    string
	targets  string // an Apprise URL
	api      string // or the address of an Apprise API server
	suggest  bool   // agents only look and propose at first
}

// codexTiers are three tiers with Codex, in place of the models of Claude.
const codexTiers = `max_tier: 3
handlers:
  - {id: tier1, tier: 1, agent: codex, model: gpt-5.3-codex, hands_to: [tier2]}
  - {id: tier2, tier: 2, agent: codex, model: gpt-5.3-codex, hands_to: [tier3]}
  - {id: tier3, tier: 3, agent: codex, model: gpt-5.3-codex}`

// configuration is the starter file with the answers in it.
func (a answers) configuration() (string, error) {
	text := starter
	if !a.suggest {
		text = section(text, "trust", "trust: ask")
	}
	if len(a.services) > 0 {
		list, err := a.serviceList()
		if err != nil {
			return "", err
		}
		text = section(text, "services", list)
	}
	if a.agent == agentCodex {
		text = section(text, "max_tier", codexTiers)
	}
	switch {
	case a.targets != "":
		text = section(text, "notify", "notify:\n  apprise_urls_file: "+targetsFile)
	case a.api != "":
		url, err := yaml.Marshal(a.api)
		if err != nil {
			return "", fmt.Errorf("write notification target: %w", err)
		}
		text = section(text, "notify", "notify:\n  apprise_api: "+strings.TrimSpace(string(url)))
	}
	return text, nil
}

// section replaces a setting of the starter file, switched on or not, and keeps the comment before it.
func section(text, key, body string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		var comment []string
		for line := range strings.Lines(p) {
			line = strings.TrimRight(line, "\n")
			if strings.HasPrefix(line, key+":") || strings.HasPrefix(line, "#"+key+":") {
				paragraphs[i] = strings.Join(append(comment, body), "\n")
				return strings.Join(paragraphs, "\n\n")
			}
			comment = append(comment, line)
		}
	}
	return text
}

// serviceEntry is a service as the configuration has it.
type serviceEntry struct {
	Name      string       `yaml:"name"`
	Container string       `yaml:"container,omitempty"` // gives the actions restart, start and stop
	Unit      string       `yaml:"unit,omitempty"`      // the same
	Probes    []probeEntry `yaml:"probes"`
}

type probeEntry struct {
	Type      string `yaml:"type"`
	Container string `yaml:"container,omitempty"`
	Unit      string `yaml:"unit,omitempty"`
	Address   string `yaml:"address,omitempty"`
	URL       string `yaml:"url,omitempty"`
	Expect    []int  `yaml:"expect_status,omitempty,flow"`
}

func (a answers) serviceList() (string, error) {
	var out strings.Builder
	if a.socket != "" {
		socket, err := yaml.Marshal(a.socket)
		if err != nil {
			return "", fmt.Errorf("write Docker socket: %w", err)
		}
		out.WriteString("docker:\n  socket: " + string(socket))
	}
	out.WriteString("services:\n")
	for _, s := range a.services {
		w := serviceEntry{Name: s.Name, Container: s.Container, Unit: s.Unit}
		for _, p := range s.Probes() {
			probe := probeEntry{Type: p.Type, Container: p.Container, Unit: p.Unit, Address: p.Address, URL: p.URL, Expect: p.ExpectStatus}
			w.Probes = append(w.Probes, probe)
		}
		var b bytes.Buffer
		encoder := yaml.NewEncoder(&b)
		encoder.SetIndent(2)
		if err := encoder.Encode([]serviceEntry{w}); err != nil {
			return "", fmt.Errorf("write service %s: %w", s.Name, err)
		}
		fmt.Fprintf(&out, "  # %s\n", clean(s.Detail))
		for line := range strings.Lines(b.String()) {
			out.WriteString("  " + line)
		}
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
