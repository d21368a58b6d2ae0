package guard

import (
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// gitCall is a call of git.
type gitCall struct{ *call }

// git follows -C and requires that changes happen in a configured repository.
func (c gitCall) git() {
	s := c.s.sub()
	c.s = s
	for _, g := range c.before {
		if g.name == "-C" {
			s.cwds = c.j.folder(s, g.value)
		}
	}
	for _, g := range c.before {
		switch g.name {
		case "-c":
			c.gitConfigOption(g.value)
		case "--git-dir", "--work-tree":
			c.gitDir(g) // from the folder of all -C, wherever they stand
		}
	}
	if c.j.planted != "" && !s.remote {
		c.refuse(ruleInline, c.j.planted+" in the same command may make a repository whose settings run programs", "run git by itself")
	}
	changes := c.row.tier > ops.Tier1
	for _, p := range append([]string(nil), c.j.paths(s, ".")...) {
		switch {
		case c.j.inRepo(p) > 1:
		case strings.HasPrefix(p, unknownDir):
			c.j.refuse(ruleRunTime, c.name, "the folder it works in is known only at run time", "use git -C with an absolute path")
		case changes && !s.remote || c.j.temporary(p):
			c.refuse(ruleWrite, "it does not work in a configured repository", "cd into a repository with && first, or use git -C")
		case p != path.Clean(c.j.facts.Cwd) && c.j.inRepo(p) == 0:
			c.j.read(s, lit(p), c.name) // the history shows every file below
		}
	}
}

// gitDir requires that the data of git itself are those of a clone, which agents cannot write.
func (c gitCall) gitDir(g given) {
	text, plain := g.value.literal()
	for _, p := range c.j.paths(c.s, text) {
		if !plain || c.j.inRepo(p) < 2 || g.name == "--git-dir" && path.Base(p) != ".git" {
			c.j.refuse(ruleWrite, "git "+g.name, "the place is not in a configured repository", "use git -C with a repository")
		}
	}
}

// harmlessGit matches settings that only change how output looks or who commits, and those of the safe mode.
var harmlessGit = ops.Pattern(`(?i)^((color|advice|column)\..*|(user\.(name|email)|core\.(quotepath|abbrev)|log\.(date|decorate)|` +
	`diff\.renames|init\.defaultbranch)(=.*)?|push\.default=(simple|current|upstream)|(core\.pager|pager\.[^=]*)(=(cat|false)?)?|` +
	`core\.fsmonitor=?|core\.hookspath=/dev/null|protocol\.ext\.allow=never|safe\.barerepository=explicit)$`)

// gitConfigOption allows no other settings.
func (c gitCall) gitConfigOption(f field) {
	if f.dyn || f.viaVar || strings.Contains(f.text, "\n") || !harmlessGit().MatchString(f.text) {
		c.j.refuse(ruleInline, "git -c "+f.show(), "settings of git may run programs or send data elsewhere", "leave -c out")
	}
}

// judgePush judges git push: branches only, never by force.
func judgePush(c *call) {
	if len(c.operands) > 0 {
		remote, plain := c.operands[0].literal()
		if !plain || !simpleName(remote) {
			c.refuse(ruleSecrets, "it pushes to a place that is not a configured remote", "push to origin")
		}
	}
	for _, f := range c.operands[min(1, len(c.operands)):] {
		text, plain := f.literal()
		source, target, mapped := strings.Cut(text, ":")
		if !mapped {
			target = source
		}
		switch {
		case !plain:
			c.runTime("refspec")
		case strings.Contains(text, "+"):
			c.j.refuse(rulePush, "git push +ref", "it rewrites what others have", "push a new branch and open a pull request")
		case mapped && source == "":
			c.j.refuse(rulePush, "git push :ref", "it deletes a branch for everybody", "leave it to a human")
		case mapped && target == "" || strings.ContainsAny(text, "*?[^~\\") || strings.Count(text, ":") > 1 || strings.IndexFunc(text, odd) >= 0:
			c.j.refuse(rulePush, "git push "+f.show(), "it names more than one branch", "push one branch by its name")
		case !plainBranch(target):
			c.j.refuse(rulePush, "git push "+f.show(), "it pushes to no branch, and what the server does with it is not known", "push a branch")
		case followed(target):
			c.j.need(c.s, ops.Tier3, ruleBash, "git push to "+f.show())
		}
	}
}

// plainBranch reports a branch: other refs are tags, notes or orders to the server, such as refs/for/main%submit.
func plainBranch(ref string) bool {
	ref, full := strings.CutPrefix(ref, "refs/heads/")
	if first, _, deeper := strings.Cut(ref, "/"); !full && (deeper && slices.Contains([]string{
		"refs", "tags", "remotes", "notes", "meta", "for", "changes", "drafts", "pull", "merge-requests", "users", "cache-automerge",
	}, first) || ref == "tag") {
		return false
	}
	return strings.Trim(ref, letters+".-/#@") == ""
}

// followed reports branches by the names that people protect and that deployments follow.
func followed(ref string) bool {
	first, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(ref, "refs/"), "heads/")), "/")
	first, _, _ = strings.Cut(first, "-")
	return slices.Contains([]string{
		"main", "master", "trunk", "default", "develop", "dev", "prod", "production", "live", "staging", "stage", "stable", "release", "releases",
		"deploy", "deployment", "gitops", "argocd", "flux", "gh", "pages",
	}, first)
}

// simpleName reports the name of a remote, not a path or URL.
func simpleName(s string) bool {
	return serviceName(s) && !strings.ContainsAny(s, "/@")
}

// revision judges a word of git commands that show commits and files, also those of other commits.
func (c gitCall) revision(f field) {
	if f.dyn {
		if f.split && !f.plain {
			c.runTime("")
		}
		return
	}
	f.glob = f.glob || strings.ContainsAny(f.text, "*?[") // git expands patterns itself
	// a file stands behind a commit, a stage, a range of lines or magic words, and all of them may hold colons
	for i := 0; i >= 0; i = strings.IndexAny(f.text, ":)}!^") {
		f = f.withText(f.text[i:])
		if i > 0 || len(f.text) > 0 && strings.ContainsRune(":)}!^", rune(f.text[0])) {
			f = f.withText(f.text[1:])
		}
		if f.glob && !c.walled() && c.j.g.secrets.picks(f.text) {
			c.j.refuse(ruleSecrets, c.name+" "+f.show(), "it may pick files that hold secrets", "look for something else")
		}
		c.j.read(c.s, f, c.name)
	}
}

// repoFile judges one file of a repository by name.
func (j *judge) repoFile(s *scope, f field, what string) {
	if f.text == "." && what == "git add" {
		return // everything may be staged, protected files not by name
	}
	f.glob = f.glob || strings.ContainsAny(f.text, "*?[")
	if f.dyn || f.viaVar || strings.HasPrefix(f.text, ":") {
		j.refuse(ruleRunTime, what, "the files it changes are known only at run time", "name the files")
		return
	}
	for _, p := range j.paths(s, f.text) {
		if bad := j.misplaced(p, f.glob, what+" "+f.show()); bad != nil && !s.remote {
			j.add(*bad)
		}
	}
}

// judgeCheckout judges git checkout, switch and restore: whole branches, or files by name.
func judgeCheckout(c *call) {
	files := c.operands
	for _, f := range files { // a branch may be meant, but git takes a file of that name as well
		for _, p := range c.j.paths(c.s, f.text) {
			if c.j.protected(p, f.glob) {
				c.j.repoFile(c.s, f, c.name)
			}
		}
	}
	for _, f := range (gitCall{c}).checkedOut() {
		gitCall{c}.fileOnly(f)
	}
}

// checkedOut are the files a checkout overwrites; none when it changes the branch.
func (c gitCall) checkedOut() []field {
	files := c.operands
	switch dash := slices.IndexFunc(c.args, func(f field) bool { return f.text == "--" }); {
	case c.row.cmd == "git restore":
		return files
	case c.has("-b", "-B", "-c", "-C", "--create", "--orphan", "--detach", "--track", "-t"):
		return nil
	case dash >= 0:
		return c.args[dash+1:]
	case len(files) == 1 && (files[0].text == "." || strings.HasPrefix(files[0].text, "./")):
		return files
	case len(files) > 1:
		return files[1:] // the first names a commit
	}
	return nil
}

// fileOnly requires one file: a folder may hold infrastructure files.
func (c gitCall) fileOnly(f field) {
	c.j.repoFile(c.s, f, c.name)
	base := path.Base(path.Clean(f.text))
	if f.glob || strings.ContainsAny(f.text, "*?[") || strings.HasSuffix(f.text, "/") || path.Ext(base) == "" || base == "." || base == ".." {
		c.refuse(ruleInventory, f.show()+" may be a folder, which may hold infrastructure files", "name the files")
	}
}

// judgeGitRm judges git rm and git mv.
func judgeGitRm(c *call) {
	for _, f := range c.operands {
		gitCall{c}.fileOnly(f)
	}
}

// judgeReset judges git reset: the index, or uncommitted work at the highest tier; no other commit's files.
func judgeReset(c *call) {
	if !c.has("--hard", "--merge", "--keep") {
		return
	}
	c.j.need(c.s, ops.Tier3, ruleBash, c.name+" --hard")
	if len(c.operands) > 0 && c.operands[0].text != "HEAD" {
		c.refuse(ruleInventory, "the files of another commit may change the inventory", "git reset --hard HEAD, or check out a branch")
	}
}

// judgeBranch judges git branch: listing is looking, naming one is a change.
func judgeBranch(c *call) {
	list := c.has("-l", "--list", "--contains", "--merged", "--no-merged", "--points-at", "--show-current")
	switch {
	case c.has("-D", "-f", "--force", "-M", "-C"):
		c.j.need(c.s, ops.Tier3, ruleBash, c.name+" by force")
	case c.has("-d", "--delete", "-m", "--move", "-c", "--copy", "-u", "--set-upstream-to", "--unset-upstream"), len(c.operands) > 0 && !list:
		gitCall{c}.gitChange()
	}
}

// gitChange is a change of the clone.
func (c gitCall) gitChange() {
	c.j.need(c.s, ops.Tier2, ruleBash, c.name)
	for _, p := range c.j.paths(c.s, ".") {
		if c.j.inRepo(p) < 2 && !c.s.remote {
			c.refuse(ruleWrite, "it does not work in a configured repository", "cd into a repository with && first, or use git -C")
		}
	}
	for _, f := range c.operands {
		if f.dyn || f.viaVar || f.glob {
			c.runTime("")
		}
	}
}

// judgeTag judges git tag: listing is looking, naming one is a change.
func judgeTag(c *call) {
	if c.has("-d", "--delete", "-f", "--force") {
		c.refuse(rulePush, "it deletes or moves a tag", "leave it to a human")
	}
	if len(c.operands) > 0 && !c.has("-l", "--list", "--contains", "--merged", "--no-merged", "--points-at", "-n") {
		gitCall{c}.gitChange()
	}
}

// judgeGitConfig judges git config: reading, or the name and address of the committer.
func judgeGitConfig(c *call) {
	for _, f := range c.operands {
		if f.dyn {
			c.runTime("")
		}
		key := strings.ToLower(f.text)
		shows := slices.ContainsFunc([]string{"extraheader", "credential", "token", "pass", "secret", "cookie", "auth"}, func(part string) bool {
			return strings.Contains(key, part)
		})
		if shows || c.has("--get-regexp") && !c.walled() {
			c.j.refuse(ruleSecrets, c.name+" "+f.show(), "it may print a password or token", "leave it alone")
		}
	}
	words := c.operands
	switch {
	case c.has("--get", "--get-all", "--get-regexp", "--get-urlmatch", "-l", "--list"):
		return
	case len(words) > 0 && (words[0].text == "get" || words[0].text == "list"):
		return
	case len(words) > 0 && words[0].text == "set":
		words = words[1:]
	}
	if len(words) == 1 && strings.Contains(words[0].text, ".") {
		return // the value of one key
	}
	if len(words) == 2 && len(c.options) == 0 && (words[0].text == "user.name" || words[0].text == "user.email") {
		c.operands = words[1:]
		gitCall{c}.gitChange()
		return
	}
	c.refuse(ruleInline, "settings of git may run programs or send data elsewhere", "leave them as they are")
}

// judgeRemoteName refuses operands that are URLs or paths where a remote's name is expected.
func judgeRemoteName(c *call) {
	if len(c.operands) == 0 {
		return
	}
	if text, plain := c.operands[0].literal(); !plain || !simpleName(text) {
		c.refuse(ruleSecrets, "it talks to a place that is not a configured remote", "name a remote such as origin")
	}
	for _, f := range c.operands[1:] {
		if strings.HasPrefix(f.text, "+") || strings.Contains(f.text, ":") {
			c.refuse(ruleBash, "a refspec may overwrite branches", "name the branch only")
		}
	}
}
