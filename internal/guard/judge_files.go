package guard

import (
	"path"
	"strings"

	"claudeops/internal/ops"
)

// judgeRm judges rm: single files in repositories and the temporary folder, folders only where nothing of value lies.
func judgeRm(c *call) {
	c.optionsOf(c.row, c.options)
	c.need(c.row.tier)
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
		case strings.HasPrefix(under, homeDir) || strings.HasPrefix(under, unknownDir) || systemDir(target) && c.j.inRepo(target) == 0 && !c.temporary(target):
			c.j.refuse(ruleRoot, what, "it deletes the root, a system folder or a home", "name the one file that is in the way")
		case c.j.misplaced(under, f.glob, what) != nil:
			c.j.add(*c.j.misplaced(under, f.glob, what))
		case c.j.misplaced(p, f.glob, what) != nil:
			c.j.add(*c.j.misplaced(p, f.glob, what))
		case c.temporary(under) && target != under, c.temporary(target):
			c.j.need(c.s, ops.Tier2, ruleWrite, what)
		case !f.glob && c.j.inRepo(p) > 2 && scratch(path.Base(p)):
			c.j.need(c.s, ops.Tier2, ruleWrite, what)
		default:
			c.j.refuse(ruleInventory, what, "a folder of a repository may hold infrastructure files", "delete the files by name")
		}
	}
}

// temporary reports a place strictly below the temporary folder.
func (c *call) temporary(p string) bool {
	t := c.j.facts.TempDir
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
		"/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/var", "/home", "/mnt", "/media", "/snap",
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
	case "build", "dist", "out", "target", "tmp", "scratch", "coverage", "node_modules", "__pycache__", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".venv", "venv", ".terraform":
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
		if source.dyn || source.glob && !broad(base) {
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
	recursive := c.has("-r", "-R", "--recursive", "-a", "--archive")
	for _, f := range sources {
		c.j.read(c.s, f, c.name)
		if recursive {
			c.j.readTree(c.s, f, c.name)
		}
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
	if recursive {
		for _, p := range c.j.paths(c.s, target.text) {
			if !c.temporary(p) {
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

// judgeSecondWrites judges programs whose second operand is the file they write.
func judgeSecondWrites(c *call) {
	if len(c.operands) > 1 {
		c.j.write(c.s, c.operands[1], c.name+" to")
	}
}

// judgeRecursive judges readers that go through folders when told to.
func judgeRecursive(c *call) {
	if !c.has("-r", "-R", "--recursive", "--dereference-recursive") && c.row.cmd != "rg" && c.row.cmd != "ag" {
		return
	}
	for i, f := range c.operands {
		if i > 0 || c.has("-e", "--regexp", "-f", "--file") {
			c.j.readTree(c.s, f, c.name)
		}
	}
	if len(c.operands) < 2 {
		c.j.readTree(c.s, lit("."), c.name)
	}
}

// judgePattern judges grep: the first operand is a pattern, the others are files.
func judgePattern(c *call) {
	files := c.operands
	if !c.has("-e", "--regexp", "-f", "--file") && len(files) > 0 {
		if files[0].split {
			c.runTime("")
		}
		files = files[1:]
	}
	for _, f := range files {
		c.j.read(c.s, f, c.name)
	}
}

// judgeTar judges tar: listing is looking, archives are written where files may be, nothing is unpacked over others.
func judgeTar(c *call) {
	words := append([]field(nil), c.args...)
	if len(words) > 0 && !strings.HasPrefix(words[0].text, "-") && !words[0].dyn && len(words[0].text) < 8 {
		words[0].text = "-" + words[0].text // tar xf is tar -xf, its values follow in order
		words = oldTar(words)
	}
	c.options, c.operands = c.row.parseOptions(words, false)
	c.optionsOf(c.row, c.options)
	archive, has := c.option("-f", "--file")
	if strings.Contains(archive.value.text, ":") && !c.has("--force-local") {
		c.refuse(ruleBash, "a name with a colon is an archive on another host", "add --force-local or use another name")
	}
	switch {
	case c.has("-t", "--list", "-d", "--diff", "--compare"):
		if has {
			c.j.read(c.s, archive.value, "tar")
		}
		c.need(ops.Tier1)
	case c.has("-c", "--create"):
		if has && archive.value.text != "-" {
			c.j.write(c.s, archive.value, "tar to")
		}
		for _, f := range c.operands {
			c.j.readTree(c.s, f, "tar")
		}
		c.need(ops.Tier1)
	case c.has("-x", "--extract", "--get"):
		dir, _ := c.option("-C", "--directory")
		for _, p := range c.j.paths(c.s, cmpOr(dir.value.text, ".")) {
			if !c.temporary(p) {
				c.refuse(ruleInventory, "an archive may overwrite any file", "unpack it with -C into a folder below the temporary one")
			}
		}
		if c.has("-P", "--absolute-names") || dir.value.dyn {
			c.refuse(ruleWrite, "it may write anywhere", "leave -P out")
		}
		c.need(ops.Tier2)
	default:
		c.refuse(ruleBash, "only listing, creating and unpacking are known", "")
	}
}

// oldTar puts the values of an old-style bundle such as `xfC a.tar dir` behind their letters.
func oldTar(words []field) []field {
	letters := words[0].text[1:]
	values := words[1:]
	var out []field
	for _, l := range letters {
		out = append(out, lit("-"+string(l)))
		if strings.ContainsRune("fCTXbKVHgINL", l) && len(values) > 0 {
			out = append(out, values[0])
			values = values[1:]
		}
	}
	return append(out, values...)
}

// judgePacker judges compressors: with -c, -l or -t they write nothing, else they replace the file.
func judgePacker(c *call) {
	looks := c.has("-c", "--stdout", "-l", "--list", "-t", "--test") || len(c.operands) == 0
	for _, f := range c.operands {
		if looks {
			c.j.read(c.s, f, c.name)
			continue
		}
		c.j.change(c.s, f, c.name, true)
		if bare := strings.TrimSuffix(f.text, path.Ext(f.text)); bare != "" && !f.glob {
			c.j.write(c.s, f.withText(bare), c.name+" to")
		}
	}
	c.optionsOf(c.row, c.options)
	c.need(ops.Tier1)
}
