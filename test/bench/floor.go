package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// floorRounds is how often the floor is measured.
const floorRounds = 60

// floor is the least that a hop can take on this machine, in milliseconds: two durable writes of a page, and the start of the agent up
// to its first line.
func (b *bench) floor(agent string) (ms float64, err error) {
	file, err := os.Create(filepath.Join(b.dir, "floor"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	page := make([]byte, 4096)
	var times []float64
	for range floorRounds {
		begun := time.Now()
		for range 2 {
			if _, err := file.Write(page); err != nil {
				return 0, err
			}
			if err := file.Sync(); err != nil {
				return 0, err
			}
		}
		if err := firstLine(agent); err != nil {
			return 0, err
		}
		times = append(times, milliseconds(begun))
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

func firstLine(program string) error {
	c := exec.Command(program, "--version") //nolint:gosec,noctx // a fake
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	return errors.Join(err, c.Wait())
}

// workTime is how long an agent of the hops works. A real one works for seconds or minutes; meanwhile the next session is prepared.
const workTime = 200 * time.Millisecond

// coldStarts is how many daemons are started for the first hop of a process.
const coldStarts = 9

// cold measures the first hop of a new daemon.
func (b *bench) cold() ([]float64, error) {
	var out []float64
	for i := range coldStarts {
		times := filepath.Join(b.dir, fmt.Sprintf("cold-%d", i))
		agent, err := b.agent(hoppingAfter(times, workTime))
		if err != nil {
			return nil, err
		}
		if err := b.chains(agent, times, fmt.Sprintf("cold-state-%d", i), 1); err != nil {
			return nil, err
		}
		raw, err := os.ReadFile(times)
		if err != nil {
			return nil, err
		}
		hops, err := hopsInOrder(string(raw))
		if err != nil {
			return nil, err
		}
		if len(hops) == 0 {
			return nil, errors.New("no hop was measured")
		}
		out = append(out, hops[0])
	}
	slices.Sort(out)
	return out, nil
}

// manyProcesses starts processes that do nothing, in one process group, until stop is called.
func manyProcesses(count int) (stop func(), err error) {
	runtime.LockOSThread() // they end with the thread that started them
	var all []*exec.Cmd
	stop = func() {
		defer runtime.UnlockOSThread()
		for _, c := range all {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	for range count {
		c := exec.Command("sleep", "3600") //nolint:noctx // stop ends it
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
		if len(all) > 0 {
			c.SysProcAttr.Pgid = all[0].Process.Pid
		}
		if err := c.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("start process %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	return stop, nil
}
