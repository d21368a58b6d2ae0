package broker

import (
	"fmt"
	"strings"
)

func networking(old container) comparison {
	return func(field string, value any, _ object) error {
		given, ok := value.(object)
		if !ok && value != nil {
			return fmt.Errorf("%s is not an object", field)
		}
		for name, v := range given {
			endpoints, ok := v.(object)
			if name != "EndpointsConfig" || !ok && v != nil {
				return fmt.Errorf("the field %q is not known", name)
			}
			for network, e := range endpoints {
				if err := old.endpoint(network, e); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// endpoint checks the place that a container is to have in a network.
func (c container) endpoint(network string, value any) error {
	var was object
	for name, e := range c.NetworkSettings.Networks {
		if network == name || network == e["NetworkID"] && network != "" {
			was = e
		}
	}
	if was == nil {
		return fmt.Errorf("the replaced container is not in the network %q", network)
	}
	given, ok := value.(object)
	if !ok && value != nil {
		return fmt.Errorf("the endpoint of %q is not an object", network)
	}
	for field, v := range given {
		check := same
		switch field {
		case "Aliases":
			check = c.aliases
		case "Links", "IPAMConfig", "DriverOpts", "MacAddress", "NetworkID", "EndpointID", "Gateway", "IPAddress", "IPPrefixLen", "IPv6Gateway",
			"GlobalIPv6Address", "GlobalIPv6PrefixLen", "DNSNames", "GwPriority":
		default:
			return fmt.Errorf("the field %q of an endpoint is not known", field)
		}
		if err := check(field, v, was); err != nil {
			return err
		}
	}
	return nil
}

// aliases are names in a network: those it had, its own names, and ids.
func (c container) aliases(field string, value any, was object) error {
	before, _ := was[field].([]any)
	list, ok := value.([]any)
	if !ok && value != nil {
		return fmt.Errorf("%s is not a list", field)
	}
	id := c.identity()
	for _, e := range list {
		text, _ := e.(string)
		hex := len(text) == 12 && strings.Trim(text, "0123456789abcdef") == ""
		if text == "" || !contains(before, e) && !hex && text != id.service() && !fits(text, id) {
			return more(field, e)
		}
	}
	return nil
}
