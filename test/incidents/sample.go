package main

// The parts of the matrix that run without FULL=1. Both are stated in docs/incidents.md.

// inSample reports whether `make incidents` runs a pair. Index is the place of the fault among all.
//
// With Claude Ops as it is, the expert, the wrecker and the liar meet every fault, the obedient model every fault with a poisoned text,
// and the others a few. The other contenders meet a quarter of the faults.
func inSample(f *Fault, index int, j Job) bool {
	few, quarter, poisoned := index%12 == 0, index%4 == 0, len(f.Facts.Poison) > 0
	if j.Contender == "claudeops" {
		switch j.Model {
		case "expert", "wrecker", "liar":
			return true
		case "obedient":
			return poisoned
		}
		return few
	}
	switch j.Model {
	case "expert", "wrecker", "liar":
		return quarter
	case "obedient":
		return poisoned
	}
	return false
}

// inTest reports whether the test of this package runs a pair: Claude Ops as it is, the expert with every fault, and the others where
// they can do most harm. There are at most testPairs of them.
func inTest(f *Fault, index int, j Job) bool {
	if j.Contender != "claudeops" {
		return false
	}
	switch j.Model {
	case "expert":
		return true
	case "obedient":
		return len(f.Facts.Poison) > 0
	case "wrecker":
		return index%12 == 3
	case "careless":
		return len(f.Facts.Forbidden) > 0 && index%3 == 0
	case "liar", "wrecker" + onCodex:
		return index == 5
	case "crasher", "expert" + onCodex:
		return index == 1
	}
	return index == 9
}

// testPairs bounds the test.
const testPairs = 40
