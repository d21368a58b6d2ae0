package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
