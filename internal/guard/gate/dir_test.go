package gate

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sharedTemp is a folder in which every user may make one, like /tmp.
func sharedTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, os.ModeSticky|0o777); err != nil { //nolint:gosec // as /tmp is
		t.Fatal(err)
	}
	return dir
}

func TestAnotherUserCannotTakeTheFolderBeforehand(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	for name, take := range map[string]func(t *testing.T, dir string) error{
		"a link":               func(_ *testing.T, dir string) error { return os.Symlink(elsewhere, dir) },
		"a file":               func(_ *testing.T, dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a folder open to all": func(_ *testing.T, dir string) error { return openToAll(dir) },
		"a folder of another user": func(t *testing.T, dir string) error {
			if os.Getuid() != 0 {
				t.Skip("only root can make a folder of another user")
			}
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			return os.Chown(dir, 12345, 12345)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := sharedTemp(t)
			usual := filepath.Join(temp, "claudeops-gate-"+strconv.Itoa(os.Getuid()))
			must(t, take(t, usual))
			// The next name is taken too, as far as it can be guessed.
			must(t, take(t, usual+"-0"))
			dir := sharedDir(temp)
			if dir == usual || !strings.HasPrefix(dir, usual+"-") {
				t.Fatalf("the folder is %q", dir)
			}
			must(t, prepareDir(dir))
			if again := sharedDir(temp); again != dir {
				t.Errorf("the next start uses %q instead of %q", again, dir)
			}
			if err := prepareDir(usual); err == nil {
				t.Error("the folder of another user was taken")
			}
			must(t, os.RemoveAll(usual))
			if again := sharedDir(temp); again != dir {
				t.Errorf("after the other one is gone it is %q instead of %q", again, dir)
			}
		})
	}
}

func openToAll(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777) //nolint:gosec // this is what the test is about
}

func TestTheUsualFolderIsUsedWhileItIsFreeOrOurs(t *testing.T) {
	t.Parallel()
	temp := sharedTemp(t)
	first := sharedDir(temp)
	if first != filepath.Join(temp, "claudeops-gate-"+strconv.Itoa(os.Getuid())) {
		t.Errorf("the folder is %q", first)
	}
	if entries, err := os.ReadDir(temp); err != nil || len(entries) != 0 {
		t.Errorf("asking for the name made %v, %v", entries, err)
	}
	must(t, prepareDir(first))
	if again := sharedDir(temp); again != first {
		t.Errorf("the next start uses %q", again)
	}
}

func TestAParentInWhichOthersReplaceFoldersIsRefused(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	if err := os.Chmod(temp, 0o777); err != nil { //nolint:gosec // this is what the test is about
		t.Fatal(err)
	}
	if err := prepareDir(filepath.Join(temp, "gate")); err == nil || !strings.Contains(err.Error(), "sticky") {
		t.Errorf("got %v", err)
	}
}
