package ops

// Prices are the prices of models by name.
type Prices map[string]Price

// modelDate is the end of a model's name that only says which day's build it is. Compiled once, never changed.
var modelDate = Pattern(`-(latest|20\d{6}|20\d\d-\d\d-\d\d)$`)

// Of returns the price of a model. A dated name has the price of the name without its date; nothing else is guessed.
func (p Prices) Of(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	price, ok := p[modelDate().ReplaceAllString(model, "")]
	return price, ok
}
