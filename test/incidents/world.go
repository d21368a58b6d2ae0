package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

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
