"""The ranking step: scores, late interaction, reranking and near-duplicates."""
