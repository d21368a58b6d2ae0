package report

import "reflect"

// Place is what the rules ask at one place of a document.
type Place struct {
	Type                   string
	Required, Text, Filled bool
	Minimum, Maximum, One  string
}

// Places lists what the rules of a type ask, for a document of Tier 1 or of a higher one.
func Places(t reflect.Type, tier2 bool) map[string]Place {
	out := map[string]Place{}
	places(t, field{}, "", tier2, out)
	return out
}

func places(t reflect.Type, f field, at string, tier2 bool, out map[string]Place) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	owed := f.tier2 && tier2
	p := Place{Type: kindOf(t), Required: f.required || owed, Text: f.text || owed, Filled: f.filled}
	for i, word := range f.one {
		if i > 0 {
			p.One += "|"
		}
		p.One += word
	}
	if f.version {
		p.One = "1"
	}
	if f.minimum != nil {
		p.Minimum = f.minimum.RatString()
	}
	if f.maximum != nil {
		p.Maximum = f.maximum.RatString()
	}
	out[at] = p
	switch {
	case p.Type == "array":
		places(t.Elem(), field{rule: f.each}, at+"/*", tier2, out)
	case t.Kind() == reflect.Struct:
		for name, inner := range fieldsOf(t) {
			places(t.FieldByIndex(inner.index).Type, inner, at+"/"+name, tier2, out)
		}
	}
}
