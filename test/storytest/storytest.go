// Package storytest holds what every story must be, whoever made its rows.
package storytest

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"claudeops/internal/story"
)

// Wrong says that a story has more than eight steps, says a sentence twice, or names a row by its number alone.
func Wrong(s story.Story) string {
	bare := regexp.MustCompile(`(?:^|[ (])(?:#|C-)\d+`)
	said := map[string]bool{}
	for _, step := range s.Steps {
		if said[step.Text] {
			return fmt.Sprintf("a story says %q twice:\n%s", step.Text, s.Text())
		}
		said[step.Text] = true
		if bare.MatchString(step.Text) {
			return fmt.Sprintf("%q names a row by its number alone", step.Text)
		}
	}
	if len(s.Steps) > 8 || s.Headline == "" {
		return fmt.Sprintf("a story of %d steps:\n%s", len(s.Steps), s.Text())
	}
	return ""
}

// Golden compares a story with the one in a file, or writes that again.
func Golden(t testing.TB, path string, s story.Story, update bool) {
	t.Helper()
	if wrong := Wrong(s); wrong != "" {
		t.Error(wrong)
	}
	got := s.Text() + "\n"
	if update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the story differs from %s:\n%s", path, got)
	}
}
