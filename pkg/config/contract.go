package config

import "amnesia/pkg/memory"

// Contracts gives what every view promises, in file order.
func (c *Config) Contracts() []memory.Contract {
	out := make([]memory.Contract, len(c.Views))
	for i, v := range c.Views {
		k := v.Contract
		m := memory.Contract{
			View: v.Name, Service: v.Service, User: kinds[v.Kind].user, Durable: *k.Durable,
			TTL: k.TTL, KeepLast: k.KeepLast, Settle: k.Settle, Copies: k.Copies,
		}
		if k.TTL > 0 {
			m.Slack, m.TTLFrom = k.Slack, k.TTLFrom
		}
		if k.KeepLast > 0 {
			m.KeepUnit = k.KeepUnit
		}
		if k.MayLose != nil {
			m.MayLose = &memory.MayLose{Window: k.MayLose.Window, On: k.MayLose.On}
		}
		out[i] = m
	}
	return out
}
