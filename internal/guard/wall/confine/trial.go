package confine

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Trial is what a program behind a wall must not be able to do.
type Trial struct {
	Write   []string `json:"write,omitempty"`   // files that must not open for writing
	Read    []string `json:"read,omitempty"`    // files that must not open for reading
	Process int      `json:"process,omitempty"` // a process that must not be reached by signals; 0: no trial
	Sockets []string `json:"sockets,omitempty"` // sockets that must not answer
	Own     string   `json:"own,omitempty"`     // a folder that must be writable
}

// BrokenError says which walls do not hold.
type BrokenError struct{ Broken []string }

func (e *BrokenError) Error() string {
	return "the walls do not hold: " + strings.Join(e.Broken, "; ")
}

// run tries everything. It changes nothing where a wall is missing: files are opened and closed, signal 0 is sent.
func (t *Trial) run() error {
	var broken []string
	for _, path := range t.Write {
		if opens(path, syscall.O_WRONLY|syscall.O_APPEND) {
			broken = append(broken, path+" can be written")
		}
	}
	for _, path := range t.Read {
		if opens(path, syscall.O_RDONLY) {
			broken = append(broken, path+" can be read")
		}
	}
	if t.Process > 0 && syscall.Kill(t.Process, 0) == nil {
		broken = append(broken, fmt.Sprintf("process %d can be signalled", t.Process))
	}
	for _, path := range t.Sockets {
		if answers(path) {
			broken = append(broken, path+" can be reached")
		}
	}
	if t.Own != "" {
		if err := tryWrite(t.Own); err != nil {
			broken = append(broken, "the session cannot use its own temporary folder: "+err.Error())
		}
	}
	if broken != nil {
		return &BrokenError{broken}
	}
	return nil
}

func opens(path string, flags int) bool {
	fd, err := syscall.Open(path, flags|syscall.O_CLOEXEC|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	_ = syscall.Close(fd)
	return true
}

// answers reports whether something listens at a socket. It stays on the calling thread, which is the one behind the wall.
func answers(path string) bool {
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|socketFlags, 0)
	if err != nil {
		return false
	}
	defer func() { _ = syscall.Close(fd) }()
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	return err == nil || err == syscall.EAGAIN || err == syscall.EPROTOTYPE
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".trial-*")
	if err != nil {
		return err
	}
	_ = f.Close()
	return os.Remove(f.Name())
}
