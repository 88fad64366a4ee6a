"""CTranslate2's folders."""
