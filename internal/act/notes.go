package act

import (
	"context"
	"os"
	"path/filepath"

	"claudeops/internal/ops"
)

// notesName is the file in which a repository tells agents about itself.
const notesName = "CLAUDE-OPS.md"

// Notes are those files as they stand in the newest commits that no agent made. A repository whose commits cannot be read has none: an
// agent might have written what lies there.
func (c *Commits) Notes(ctx context.Context, env ops.Environment) []ops.Notes {
	files, _ := filepath.Glob(filepath.Join(env.ReposDir, "*", notesName)) // the pattern is right
	var out []ops.Notes
	for _, file := range files {
		repo := filepath.Dir(file)
		if info, err := os.Lstat(repo); err != nil || !info.IsDir() {
			continue // a link leads elsewhere
		}
		commit, err := c.trusted(ctx, repo)
		if err != nil {
			continue
		}
		dir, err := c.mirror(ctx, repo)
		if err != nil {
			continue
		}
		if text, err := c.git(ctx, dir, "cat-file", "blob", commit+":"+notesName); err == nil {
			out = append(out, ops.Notes{Repository: filepath.Base(repo), Commit: abbreviated(commit), Text: string(text)})
		}
	}
	return out
}
