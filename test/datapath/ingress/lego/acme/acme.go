package acme

type Account struct{}

type ExtendedAccount struct {
	Account

	Location string
}
