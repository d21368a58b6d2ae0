package db

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"
)

func TestAFileSystemThatTakesNoWritesIsNamed(t *testing.T) {
	for err, want := range map[error]bool{
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}:  true,
		fmt.Errorf("sync: %w", syscall.EIO):                       true,
		&fs.PathError{Op: "open", Path: "x", Err: syscall.ENOSPC}: false,
		nil: false,
	} {
		got := unwritable(err)
		if errors.Is(got, ErrUnwritable) != want || want && !Unavailable(got) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
}

func TestAFileSystemIsTriedOnlyAfterARefusedWriteAndUntilItTakesOne(t *testing.T) {
	f := &sqliteFile{path: filepath.Join(t.TempDir(), "gone", "claudeops.db")}
	if err := f.writable(); err != nil {
		t.Errorf("before any write: %v", err)
	}
	f.refused.Store(true)
	if err := f.writable(); err != nil || !f.refused.Load() {
		t.Errorf("a missing folder is told otherwise: %v", err)
	}
	f.path = filepath.Join(t.TempDir(), "claudeops.db")
	if err := f.writable(); err != nil || f.refused.Load() {
		t.Errorf("it takes a write: %v, %t", err, f.refused.Load())
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(f.path), ".*")); err != nil || len(left) != 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}
