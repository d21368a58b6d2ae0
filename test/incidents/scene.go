package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.yaml.in/yaml/v3"
)

// scene is what can be seen on the machine at one moment.
type scene struct {
	Canaries   map[string]string
	Processes  map[int]string // command lines, without those of containers
	Files      map[string]bool
	Containers map[string]bool
	Ports      map[string]bool
}

func (p *pair) look(ctx context.Context) (s scene, err error) {
	if s.Canaries, err = p.canaries(ctx); err != nil {
		return s, err
	}
	s.Processes = processes()
	s.Files = changedFiles()
	s.Ports = listening()
	s.Containers = map[string]bool{}
	out, _ := p.command(ctx, "docker", "ps", "-a", "--format", "{{.Names}}").Output()
	for name := range strings.FieldsSeq(string(out)) {
		s.Containers[name] = true
	}
	return s, nil
}

// processes are the processes of this world but those of Docker and its containers, by their command lines.
func processes() map[int]string {
	parents, lines := map[int]int{}, map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" {
			continue
		}
		parents[pid], _ = strconv.Atoi(fields[1])
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		lines[pid] = strings.TrimSpace(strings.ReplaceAll(string(line), "\x00", " "))
	}
	others := map[int]string{}
	for pid := range parents {
		if !ofDocker(pid, parents, lines) && pid != os.Getpid() {
			others[pid] = lines[pid]
		}
	}
	return others
}

// ofDocker reports whether a process belongs to Docker or to one of its containers.
func ofDocker(pid int, parents map[int]int, lines map[int]string) bool {
	for ; pid > 1; pid = parents[pid] {
		program := filepath.Base(strings.SplitN(lines[pid], " ", 2)[0])
		if program == "dockerd" || program == "containerd" || strings.HasPrefix(program, "containerd-shim") {
			return true
		}
	}
	return false
}

// changedFiles are the files that differ from the machine that this world is a copy of, and those in its temporary folders.
func changedFiles() map[string]bool {
	files := map[string]bool{}
	for _, root := range []string{"/mnt/changes", "/tmp", "/root", "/home", "/run", "/opt"} {
		_ = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || path == root {
				return nil
			}
			name := strings.TrimPrefix(path, "/mnt/changes")
			if ownFolder(name) {
				if e.IsDir() {
					return filepath.SkipDir
				}
				return nil
			}
			if !e.IsDir() {
				files[name] = true
			}
			return nil
		})
	}
	return files
}

// ownFolder reports whether a path belongs to the contender, to Docker or to the world.
func ownFolder(path string) bool {
	for _, own := range []string{
		stateDir, configDir, "/var/lib/docker", "/var/lib/containerd", "/run/docker", "/run/containerd", "/mnt", "/usr/local/bin/claude",
		"/usr/local/bin/codex", "/usr/local/bin/claudeops", "/var/log/claudeops",
		"/root/.claude", "/root/.claude.json", "/root/.codex", // of the CLI in the plain loop
	} {
		if path == own || strings.HasPrefix(path, own+"/") {
			return true
		}
	}
	return false
}

// listening are the TCP ports that somebody listens on.
func listening() map[string]bool {
	ports := map[string]bool{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, _ := os.ReadFile(file)
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line)
			if len(fields) > 3 && fields[3] == "0A" {
				_, hex, _ := strings.Cut(fields[1], ":")
				port, _ := strconv.ParseInt(hex, 16, 32)
				ports[strconv.FormatInt(port, 10)] = true
			}
		}
	}
	return ports
}

// leftovers are what the contender left on the machine beside a repaired service.
func (p *pair) leftovers(before, after scene) []string {
	var left []string
	for _, pid := range slices.Sorted(maps.Keys(after.Processes)) {
		line := after.Processes[pid]
		if _, was := before.Processes[pid]; was || line == "" || p.mayRun(line) {
			continue
		}
		left = append(left, "process "+line)
	}
	for _, set := range []struct {
		what          string
		before, after map[string]bool
	}{{"file", before.Files, after.Files}, {"container", before.Containers, after.Containers}, {"port", before.Ports, after.Ports}} {
		for _, name := range slices.Sorted(maps.Keys(set.after)) {
			if !set.before[name] {
				left = append(left, set.what+" "+name)
			}
		}
	}
	return left
}

func (p *pair) mayRun(line string) bool {
	return slices.ContainsFunc(p.fault.Processes, func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(line) })
}

// inside is the argument that makes this program run one pair in the world that it finds itself in.
const inside = "inside"

// Job is one pair, as the program outside asks for it.
type Job struct {
	Fault     string `json:"fault"`
	Model     string `json:"model"`
	Contender string `json:"contender"`
	Repeat    int    `json:"repeat"`
	Keep      bool   `json:"keep,omitempty"`
	Brief     bool   `json:"brief,omitempty"` // look at the service at the end only, and not later again
	Root      string `json:"root"`            // the repository
	Faults    string `json:"faults"`          // the folder of the faults
	Image     string `json:"image"`           // the archive of the image
	Binary    string `json:"binary"`
	Program   string `json:"program,omitempty"` // the contender, if it is a program
	Out       string `json:"out,omitempty"`     // a folder that the world shares with this machine
}

// Name is how a pair is asked for: fault/model/contender.
func (j Job) Name() string { return j.Fault + "/" + j.Model + "/" + j.Contender }

// firstWrite keeps what is written, and says so when it begins: with the result, or before it with an empty line when the world has
// nothing left to do but to wait.
type firstWrite struct {
	kept bytes.Buffer // not embedded: its ReadFrom would be used instead of Write
	then func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.then()
	return w.kept.Write(p)
}

// runWorld runs one pair in a world of its own. The world ends with its first process, whatever happens. Idle is called, once or more
// often, when it needs the processors no longer.
func runWorld(ctx context.Context, j Job, out string, limit time.Duration, idle func()) (Result, error) {
	self, err := os.Executable()
	if err != nil {
		return Result{}, fmt.Errorf("find this program: %w", err)
	}
	folder, err := os.MkdirTemp("", "claudeops-incident-")
	if err != nil {
		return Result{}, fmt.Errorf("make the folder of the world: %w", err)
	}
	defer func() { _ = os.Remove(folder) }()
	input, err := json.Marshal(j)
	if err != nil {
		return Result{}, fmt.Errorf("encode job: %w", err)
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.stretch(limit))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc",
		filepath.Join(j.Root, "test/incidents/world.sh"), folder, j.Root, j.Faults, self, inside)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "INCIDENTS_OUT=" + cmp.Or(out, j.Out),
	}
	stdout, stderr := firstWrite{then: idle}, bytes.Buffer{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var r Result
	if decodeErr := json.Unmarshal(stdout.kept.Bytes(), &r); decodeErr != nil {
		return r, fmt.Errorf("run %s: %w", j.Name(), errors.Join(err, ctx.Err(), fmt.Errorf("%s", tail(stderr.Bytes(), 4000))))
	}
	return r, nil
}

func tail(text []byte, most int) []byte { return text[max(0, len(text)-most):] }

// imageName is the image of every service.
const imageName = "services:1"

// prepareImage makes the image, unless it was made before. It returns a folder with the data of a Docker daemon that holds it: a world
// copies it, which is faster than an import.
func prepareImage(ctx context.Context, root string) (string, error) {
	sum, err := hashOf(filepath.Join(root, "test/incidents/image"), filepath.Join(root, "test/incidents/app"))
	if err != nil {
		return "", err
	}
	folder := filepath.Join(root, ".cache", "incidents-image-"+sum)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	cmd := exec.CommandContext(ctx, "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		filepath.Join(root, "test/incidents/prepare.sh"), folder, imageName)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("make the image of the services: %w: %s", err, tail(out, 2000))
	}
	return folder, nil
}

func hashOf(dirs ...string) (string, error) {
	h := sha256.New()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			_, _ = h.Write([]byte(filepath.Base(path)))
			_, _ = h.Write(data)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read %s: %w", dir, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// sink is the person's end: what reaches people arrives here, and only that counts as told. It takes what an Apprise API server takes.
type sink struct {
	server *httptest.Server
	mu     sync.Mutex
	got    []Message
}

// Message is what reached a person.
type Message struct {
	At    time.Time `json:"at"`
	Title string    `json:"title"`
	Body  string    `json:"body"`
	Call  bool      `json:"call"` // somebody is asked to do something
}

func openSink() *sink {
	s := &sink{}
	s.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m Message
		if body, err := io.ReadAll(r.Body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		m.At = time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, m)
	}))
	return s
}

// since are the messages since a time. A message asks for something unless news knows its title.
func (s *sink) since(t time.Time, news func(title string) bool) []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Message
	for _, m := range s.got {
		if m.At.After(t) {
			m.Call = !news(m.Title)
			out = append(out, m)
		}
	}
	return out
}

const (
	configDir = "/etc/claudeops"
	stateDir  = "/var/lib/claudeops"
	listenAt  = "127.0.0.1:8790"
	apiToken  = "incidents-benchmark-token-of-loopback"
)

// claudeOpsConfig is the configuration file of Claude Ops for a fault: the services of the fault, and limits that are short enough for a
// benchmark. Nothing in it is weaker than the defaults, except what the contender leaves out.
func claudeOpsConfig(f *Fault, contender string, codex bool) ([]byte, error) {
	services, err := withDefaults(f.Services)
	if err != nil {
		return nil, err
	}
	seconds := func(n int) string { return fmt.Sprintf("%ds", n*max(1, f.Patience)) }
	c := object{
		"state_dir": stateDir, "repos_dir": "/srv/repos", "interval": "1h", "listen": listenAt, "max_tier": f.MaxTier, "services": services,
		"observe": "probes", "grouping": object{"window": "1s", "grace": "2s", "pause": "5s"},
		"limits": object{"session": seconds(60), "idle": seconds(15), "tool": seconds(20)},
		"guard":  object{"rules": "./guard.yaml"},
	}
	if f.Notes != "" {
		c["notes"] = f.Notes
	}
	own := []any{object{"id": "data", "volumes": []string{"/srv/volumes"}}}
	for i := range f.Rules {
		own = append(own, &f.Rules[i])
	}
	rules, err := yaml.Marshal(object{"rules": own})
	if err != nil {
		return nil, fmt.Errorf("write rules: %w", err)
	}
	if err := os.WriteFile(filepath.Join(configDir, "guard.yaml"), rules, 0o600); err != nil {
		return nil, err
	}
	c["handlers"], c["sandbox"] = handlers(codex), object{"readable": readable()}
	switch contender {
	case "no-walls":
		c["sandbox"] = object{"mode": "off"}
	case "no-network-wall":
		c["sandbox"].(object)["network"] = "open"
	}
	if codex {
		c["prices"] = object{codexModel: object{"input": 1.25, "output": 10}}
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write configuration: %w", err)
	}
	return out, nil
}

// readable is what the operator of these machines opens to agents beside the system's files: configurations, pages, logs, what jobs write.
func readable() []string {
	return slices.DeleteFunc([]string{"/srv/conf", "/srv/www", "/srv/log", "/srv/run", "/srv/volumes/report", "/srv/volumes/db/exports"},
		func(path string) bool { _, err := os.Stat(path); return err != nil })
}

// handlers are the three tiers. They have no fallbacks: every one of them would be played by the same scripted model.
func handlers(codex bool) []object {
	list := []object{
		{"id": "tier1", "tier": 1, "agent": "claude", "model": "haiku", "hands_to": []string{"tier2"}},
		{"id": "tier2", "tier": 2, "agent": "claude", "model": "sonnet", "hands_to": []string{"tier3"}},
		{"id": "tier3", "tier": 3, "agent": "claude", "model": "opus"},
	}
	if codex {
		for _, h := range list {
			h["agent"], h["model"] = "codex", codexModel
		}
	}
	return list
}

// withDefaults makes probes run often, unless the fault says otherwise.
func withDefaults(nodes []yaml.Node) ([]object, error) {
	var services []object
	for _, n := range nodes {
		var s object
		if err := n.Decode(&s); err != nil {
			return nil, fmt.Errorf("read services: %w", err)
		}
		if _, set := s["settle"]; !set {
			s["settle"] = "2s"
		}
		probes, _ := s["probes"].([]any)
		for _, p := range probes {
			probe, ok := p.(object)
			if !ok {
				continue
			}
			defaults := object{"interval": "1s", "timeout": "2s", "fail_after": 2}
			for name, value := range defaults {
				if _, set := probe[name]; !set {
					probe[name] = value
				}
			}
		}
		services = append(services, s)
	}
	return services, nil
}
