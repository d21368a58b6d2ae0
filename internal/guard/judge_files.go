package guard

import (
	"path"
	"strings"

	"claudeops/internal/ops"
)

// judgeRm judges rm: single files in repositories and the temporary folder, folders only where nothing of value lies.
func judgeRm(c *call) {
	recursive := c.has("-r", "-R", "--recursive")
	for _, f := range c.operands {
		if recursive {
			c.removeTree(f)
			continue
		}
		if f.glob && path.Base(f.text) == "*" {
			c.refuse(ruleRunTime, "it deletes whatever lies there", "name the files")
		}
		c.j.change(c.s, f, c.name, true)
	}
}

// removeTree judges the deletion of a folder with all that is in it.
func (c *call) removeTree(f field) {
	if f.dyn || f.viaVar {
		c.j.refuse(ruleRoot, c.name+" -r", "what it deletes is known only at run time, and may be the root", "write the folder out")
		return
	}
	for _, p := range c.j.paths(c.s, f.text) {
		what := c.name + " -r " + f.show()
		target, under := p, p
		if f.glob {
			under = beforeGlob(p)
			if under != path.Dir(p) || path.Base(p) == "*" || path.Base(p) == ".*" {
				target = under // all of that folder
			}
		}
		switch {
		case c.j.own(target) && (within(c.j.facts.StateDir, target) || c.j.vital(target, false, false)):
			c.j.refuse(ops.RuleAttack, what, "the supervisor lives by it", "leave it alone")
		case strings.HasPrefix(under, homeDir) || strings.HasPrefix(under, unknownDir) || systemDir(target) && c.j.inRepo(target) == 0 &&
			!c.j.temporary(target):
			c.j.refuse(ruleRoot, what, "it deletes the root, a system folder or a home", "name the one file that is in the way")
		case c.j.misplaced(under, f.glob, what) != nil:
			c.j.add(*c.j.misplaced(under, f.glob, what))
		case c.j.misplaced(p, f.glob, what) != nil:
			c.j.add(*c.j.misplaced(p, f.glob, what))
		case c.j.temporary(under) && target != under, c.j.temporary(target):
			c.j.need(c.s, ops.Tier2, ruleWrite, what)
		case !f.glob && c.j.inRepo(p) > 2 && scratch(path.Base(p)):
			c.j.need(c.s, ops.Tier2, ruleWrite, what)
		default:
			c.j.refuse(ruleInventory, what, "a folder of a repository may hold infrastructure files", "delete the files by name")
		}
	}
}

// temporary reports a place strictly below the temporary folder.
func (j *places) temporary(p string) bool {
	t := j.facts.TempDir
	return t != "" && p != t && within(p, t)
}

// beforeGlob is the folder in which a pattern starts.
func beforeGlob(p string) string {
	dir := p
	for strings.ContainsAny(dir, "*?[") {
		dir = path.Dir(dir)
	}
	return dir
}

// systemDir reports the root, its children and the folders of the system.
func systemDir(p string) bool {
	if strings.Count(p, "/") <= 1 {
		return true
	}
	for _, dir := range []string{
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys",
		"/usr", "/var", "/home", "/mnt", "/media", "/snap",
	} {
		if within(p, dir) {
			return true
		}
	}
	return false
}

// scratch reports folders that builds leave behind.
func scratch(name string) bool {
	switch name {
	case "build", "dist", "out", "target", "tmp", "scratch", "coverage", "node_modules", "__pycache__", ".cache", ".pytest_cache",
		".mypy_cache", ".ruff_cache", ".venv", "venv", ".terraform":
		return true
	}
	return false
}

// destination returns the sources and the target of cp and mv.
func (c *call) destination() (sources []field, target field, ok bool) {
	if dir, given := c.option("-t", "--target-directory"); given {
		return c.operands, dir.value, true
	}
	if n := len(c.operands); n >= 2 {
		return c.operands[:n-1], c.operands[n-1], true
	}
	c.refuse(ruleBash, "it names no target", "name source and target")
	return nil, field{}, false
}

// landing judges the file a source becomes: the target itself, or one of that name inside it.
func (c *call) landing(source, target field) {
	folder := strings.HasSuffix(target.text, "/") || c.j.facts.TempDir != "" && path.Clean(target.text) == c.j.facts.TempDir
	base := path.Base(path.Clean(source.text))
	if !folder || base == "." || base == "/" || base == ".." || source.glob || source.dyn {
		c.j.write(c.s, target, c.name+" to")
	}
	if source.glob || source.dyn || base == "." || base == "/" || base == ".." {
		if source.dyn || source.glob && !IsBroad(base) {
			c.runTime("")
		}
		return
	}
	c.j.write(c.s, target.withText(strings.TrimSuffix(target.text, "/")+"/"+base), c.name+" to")
}

// judgeCp judges cp: sources are read, targets written; folders only into the temporary one.
func judgeCp(c *call) {
	sources, target, ok := c.destination()
	if !ok {
		return
	}
	for _, f := range sources {
		c.j.read(c.s, f, c.name)
		for _, p := range c.j.paths(c.s, f.text) {
			if standardDir(path.Dir(p)) {
				c.refuse(rulePath, "a copied program would hide its name", "call programs by their plain name")
			}
		}
		if f.glob {
			c.runTime("")
		}
		c.landing(f, target)
	}
	if c.has("-r", "-R", "--recursive", "-a", "--archive") {
		for _, p := range c.j.paths(c.s, target.text) {
			if !c.j.temporary(p) {
				c.refuse(ruleInventory, "a copied folder may overwrite infrastructure files", "copy the files by name")
			}
		}
	}
}

// judgeMv judges mv: what it moves is gone from where it was.
func judgeMv(c *call) {
	sources, target, ok := c.destination()
	if !ok {
		return
	}
	for _, f := range sources {
		c.j.change(c.s, f, c.name, true)
		if f.glob {
			c.runTime("")
		}
		for _, p := range c.j.paths(c.s, f.text) {
			if c.j.inRepo(p) > 0 && path.Ext(p) == "" {
				c.refuse(ruleInventory, f.show()+" may be a folder, which may hold infrastructure files", "move the files by name")
			}
		}
		c.landing(f, target)
	}
}

// judgeDd judges dd by its if= and of=.
func judgeDd(c *call) {
	for _, f := range c.args {
		name, text, _ := strings.Cut(f.text, "=")
		switch name {
		case "of":
			c.j.write(c.s, f.withText(text), "dd to")
		case "if":
			c.j.read(c.s, f.withText(text), "dd")
		case "bs", "ibs", "obs", "cbs", "count", "skip", "seek", "status", "conv", "iflag", "oflag", "iseek", "oseek":
		default:
			c.refuse(ruleBash, "its argument "+f.show()+" is not known", "leave it out")
		}
		if f.dyn {
			c.runTime("")
		}
	}
	c.need(ops.Tier1)
}

// judgeRecursive judges searchers that go through the folder they run in when no other is named.
func judgeRecursive(c *call) {
	files := len(c.operands)
	if !c.has("-e", "--regexp", "-f", "--file", "--files") {
		files--
	}
	how, _ := c.option("-d", "--directories")
	recursive := !strings.HasSuffix(c.row.cmd, "grep") || c.row.cmd == "rgrep" || how.value.text == "recurse" ||
		c.has("-r", "-R", "--recursive", "--dereference-recursive")
	if files <= 0 && recursive {
		if c.row.cmd == "rg" && c.s.stdin == inputData {
			return
		}
		c.j.read(c.s, lit("."), c.name)
	}
}

// judgeTar judges tar: listing is looking, archives are written where files may be, nothing is unpacked over others.
func judgeTar(c *call) {
	words := append([]field(nil), c.args...)
	if len(words) > 0 && words[0].text != "" && !strings.HasPrefix(words[0].text, "-") && !words[0].dyn && len(words[0].text) < 12 {
		if strings.ContainsAny(words[0].text[:len(words[0].text)-1], "fCb") { // their values stand apart
			c.refuse(ruleBash, "its letters take more than one word", "write options with a dash")
		}
		words[0] = lit("-" + words[0].text)
	}
	c.options, c.operands = c.parse(c.row, words, false)
	archive, has := c.option("-f", "--file")
	if strings.Contains(archive.value.text, ":") && !c.has("--force-local") {
		c.refuse(ruleBash, "a name with a colon is an archive on another host", "add --force-local or use another name")
	}
	if c.count("-f", "--file") > 1 || c.count("-C", "--directory") > 1 {
		c.refuse(ruleBash, "it names several archives or folders", "name one")
	}
	if dir, ok := c.option("-C", "--directory"); ok && dir.behind > 0 {
		c.refuse(ruleBash, "-C counts only for the names behind it", "put -C before the names")
	}
	outside := c.s
	c.optionsOf(c.options) // -C counts for the files, not for the archive
	switch {
	case c.has("-t", "--list"):
		if has {
			c.j.read(outside, archive.value, "tar")
		}
		c.need(ops.Tier1)
	case c.has("-c", "--create"):
		if has && archive.value.text != "-" {
			c.j.write(outside, archive.value, "tar to")
		}
		for _, f := range c.operands {
			c.j.read(c.s, f, "tar")
		}
		c.need(ops.Tier1)
	case c.has("-x", "--extract", "--get"):
		for _, p := range c.j.paths(c.s, ".") {
			if !c.j.temporary(p) {
				c.refuse(ruleInventory, "an archive may overwrite any file", "unpack it with -C into a folder below the temporary one")
			}
		}
		if has {
			c.j.read(outside, archive.value, "tar")
		}
		c.need(ops.Tier2)
	default:
		c.refuse(ruleBash, "only listing, creating and unpacking are known", "")
	}
}

// count is how often one of the options was given.
func (c *line) count(names ...string) (n int) {
	for _, g := range c.options {
		if g.is(names...) {
			n++
		}
	}
	return n
}

// judgeLookPacked refuses a look into a packed file that a later option makes a change: for most programs the last one counts.
func judgeLookPacked(c *call) {
	changes := c.has("-d", "--decompress", "--uncompress") || c.row.cmd == "lz4" || c.row.cmd == "compress"
	if changes && !c.has("-c", "--stdout", "--to-stdout") {
		c.refuse(ruleBash, "its options override each other", "give -l or -t alone, or -c")
	}
}

// judgePacked judges the file a compressor makes beside the one it takes.
func judgePacked(c *call) {
	for _, f := range c.operands {
		if bare := strings.TrimSuffix(f.text, path.Ext(f.text)); bare != "" && !f.glob {
			c.j.write(c.s, f.withText(bare), c.name+" to")
		}
	}
	if c.s.stdin == inputNone && len(c.operands) == 0 {
		c.need(ops.Tier1)
	}
}
