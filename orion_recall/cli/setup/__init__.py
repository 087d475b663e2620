"""What a deployment needs: `orion-recall settings`, `profiles`, `keys`, `migrate`, `contracts`."""
