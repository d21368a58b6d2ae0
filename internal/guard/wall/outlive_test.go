//go:build linux

package wall_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// marked are the processes with a mark among their arguments.
func marked(t *testing.T, mark string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(raw), "perl\x00") && strings.Contains(string(raw), mark) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// ways in which a process outlives the one that started it. %s is the mark.
func ways() map[string]string {
	const perl = `perl -MPOSIX -e '%s' `
	way := func(code string) string { return fmt.Sprintf(perl, code) + `%[1]s` }
	return map[string]string{
		"background":  way(`sleep 600`) + ` &`,
		"nohup":       `nohup ` + way(`sleep 600`) + ` >/dev/null 2>&1 &`,
		"session":     `env -i setsid -f ` + way(`sleep 600`),
		"double fork": way(`exit if fork; POSIX::setsid(); exit if fork; $SIG{$_}="IGNORE" for keys %%SIG; close STDIN; close STDOUT; close STDERR; sleep 600`),
		"own group":   way(`exit if fork; POSIX::setpgid(0,0); sleep 600`),
		"many":        way(`for (1..40) { if (!fork) { POSIX::setsid(); if (!fork) { sleep 600 } exit } }`),
		"never still": way(`for (1..1000000) { exit if fork; POSIX::setsid() }`),
	}
}

// settings are the walls a session may have, as root and as a user.
func settings(t *testing.T) map[string]func() *place {
	t.Helper()
	out := map[string]func() *place{}
	for _, uid := range []int{0, agentUID} {
		for name, on := range map[string]func(*place){
			"none":     func(*place) {},
			"Landlock": func(p *place) { p.config.Confine, p.config.Bwrap = true, "/nowhere/bwrap" },
			"mounts":   func(p *place) { p.config.Confine = true },
		} {
			if name == "none" && uid != 0 {
				continue
			}
			out[fmt.Sprintf("%s as %d", name, uid)] = func() *place {
				p := newPlace(t)
				on(p)
				if uid != 0 {
					p.uid(uid)
				}
				return p
			}
		}
	}
	return out
}

func TestNothingOutlivesItsSession(t *testing.T) {
	for setting, open := range settings(t) {
		for way, script := range ways() {
			t.Run(setting+" "+way, func(t *testing.T) {
				mark := fmt.Sprintf("mark-%d", time.Now().UnixNano())
				cmd := open().command(ops.Tier1, fmt.Sprintf(script, mark)+"\nsleep 0.1; exit 3")
				err := cmd.Run()
				left := marked(t, mark)
				if code := cmd.ProcessState.ExitCode(); code != 3 {
					t.Errorf("exit %d, %v", code, err)
				}
				for _, pid := range left {
					t.Errorf("process %d is left", pid)
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
		}
	}
}

// The supervisor is killed without a word, and nobody else looks: what is in front of the session ends it.
func TestNothingOutlivesTheSupervisor(t *testing.T) {
	for setting, open := range settings(t) {
		t.Run(setting, func(t *testing.T) {
			mark := fmt.Sprintf("mark-%d", time.Now().UnixNano())
			cmd := open().command(ops.Tier1, fmt.Sprintf(ways()["session"], mark)+"\n"+`trap "" INT; echo ready; while :; do sleep 0.05; done`)
			// The shell is the supervisor; setpriv asks for the signal that the death of a supervisor sends.
			supervisor := exec.Command("/bin/sh", append([]string{"-c", `setpriv --pdeathsig INT "$@" & wait`, "sh"}, cmd.Args...)...)
			supervisor.Env, supervisor.Dir, supervisor.SysProcAttr = cmd.Env, cmd.Dir, cmd.SysProcAttr
			started(t, supervisor)
			wait := time.Now().Add(time.Minute)
			for len(marked(t, mark)) == 0 && time.Now().Before(wait) {
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // a process of the kernel's, nobody tells
			}
			if len(marked(t, mark)) == 0 {
				t.Fatal("the escapee never started, so this test proves nothing")
			}
			must(t, supervisor.Process.Kill())
			_ = supervisor.Wait()
			for wait := time.Now().Add(10 * time.Second); len(marked(t, mark)) > 0; {
				if time.Now().After(wait) {
					for _, pid := range marked(t, mark) {
						t.Errorf("process %d is left", pid)
						_ = syscall.Kill(pid, syscall.SIGKILL)
					}
				}
				time.Sleep(5 * time.Millisecond) //nolint:forbidigo // as above
			}
		})
	}
}
