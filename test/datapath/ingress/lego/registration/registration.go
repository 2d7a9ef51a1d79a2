package registration

type RegisterOptions struct{ TermsOfServiceAgreed bool }

type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}
