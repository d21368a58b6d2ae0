package web_test

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"
)

// movingClock is a clock that a test moves while handlers run.
type movingClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *movingClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *movingClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// holds reports whether a file contains a text.
func holds(t *testing.T, path, text string) bool {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	return bytes.Contains(content, []byte(text))
}
